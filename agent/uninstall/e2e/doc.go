// Package e2e tests the end of ebb beside the real API server, kubelet and containerd.
// There is no garbage collector but where a test starts one.
package e2e
