// Package runtimetest is the one suite that every runtime adapter has to pass:
// the fake as well as each containerd that ebb supports. What it proves for the
// fake is that tests written against the fake mean something.
//
// A [Harness] brings the runtime under test and a way to play the other users
// of the node: people, builders, the kubelet. The suite owns it until Run
// returns; each case uses image names and layers of its own, and gives back
// what it took. Measured disk figures are compared with computed ones within a
// margin for directories and metadata, which no snapshotter accounts for.
package runtimetest
