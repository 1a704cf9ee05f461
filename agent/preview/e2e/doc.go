// Package e2e compares the predictions of agent/preview with what the real
// kube-controller-manager's collector then does, on the real API server. Its tests
// run in "make e2e".
package e2e
