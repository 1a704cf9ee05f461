// Package e2e tests the files of deploy/ on the real API server. Its tests run in "make
// e2e".
package e2e
