// Package desktest helps tests of agent/desk. It has a kubelet that runs "ebb-agent dial-stdio" in
// the test's own process, and a minimal API server to reach it. It also has the tests themselves,
// which a real kube-apiserver must pass, too.
package desktest
