// Package policy is the root of ebb's decisions. Its subpackages turn values
// into plans: the same input gives the same plan, on any machine, at any time.
// No package below this folder may read a clock, touch the disk or the network,
// log, start a goroutine, or know a runtime. imports_test.go lists what is
// banned, and why. The code that carries out the plans is in other packages.
package policy
