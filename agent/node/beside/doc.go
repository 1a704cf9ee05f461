// Package beside tests ebb-agent next to a real kubelet and a real API server. Its
// tests run in "make e2e".
package beside
