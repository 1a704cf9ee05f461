// Package desktest has what tests of agent/desk need: a kubelet that runs "ebb-agent
// dial-stdio" in the test's own process, an API server that knows just enough to reach it,
// and the tests themselves, which a real kube-apiserver has to pass as well.
package desktest
