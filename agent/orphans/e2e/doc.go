// Package e2e makes each kind of orphan on the real API server, holds the report of `ebb
// orphans` against them, and runs the commands that it prints in a shell with the real
// kubectl. Its tests run in "make e2e".
package e2e
