// Package e2e tests runtime/kube on the real kubelet and API server. Its tests
// run in "make e2e".
package e2e
