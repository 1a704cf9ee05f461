// Package showtest has pages as agents answer them, with names that must not be trusted, and an
// agent that serves these pages on a socket. It is for tests.
package showtest
