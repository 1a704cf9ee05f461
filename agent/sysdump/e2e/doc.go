// Package e2e makes an archive of what is on the real API server, with secrets wherever
// objects may hold some. Its test runs in "make e2e".
package e2e
