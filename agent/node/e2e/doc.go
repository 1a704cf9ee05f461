// Package e2e holds the end-to-end tests of the node agent: the agent as
// people run it, on a throwaway node with a real containerd, a real ext4 (xfs and
// btrfs where they differ) and programs in the running kernel. It has no code of
// its own.
//
// # How the tests work
//
// A fixture (fixture_test.go) is one node with one agent. Most tests run the built
// binary as a process, so that it can be stopped, killed and started again.
// Where a fault must come at one exact moment, the agent runs inside the test
// (resident_test.go), with a hook around the real runtime.
//
// A scenario (scenario_test.go) is the images of a test, and what the test itself knows
// of their use: the truth that the agent is held against. Its oracle is
// deliberately dumb: it walks the images in their true order and counts, layer
// by layer, what nobody needs any more.
//
// # Invariants
//
//   - Nothing sleeps and hopes: a test waits for a line of the log, an answer of
//     the agent or a state of the disk, each with a deadline.
//   - The name of a fixture carries the process ID of its test. A test cleans up
//     also when it fails; what a killed one has left is removed by the next.
//   - Tests that run the agent inside themselves do not run in parallel, because
//     they check for leaked goroutines.
package e2e
