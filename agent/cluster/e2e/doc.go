// Package e2e tests the controller on a real API server, under a real service
// account with the rights that deploy/manifests gives it.
package e2e
