// Package showtest has pages as agents answer them, with names that nobody should trust,
// and an agent that answers them on a socket. It is for tests.
package showtest
