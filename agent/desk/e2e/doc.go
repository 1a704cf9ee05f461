// Package e2e runs the tests of agent/desk through a real kube-apiserver, with its
// WebSockets, its authorizer, and its own connection to the kubelet behind it.
package e2e
