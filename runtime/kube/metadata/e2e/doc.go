// Package e2e tests runtime/kube/metadata on a real API server and etcd. Its
// tests run in "make e2e".
package e2e
