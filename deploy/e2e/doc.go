// Package e2e tests what deploy/ ships on the real API server. Its tests run in
// "make e2e".
package e2e
