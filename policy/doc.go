// Package policy is the root of ebb's decisions. Its subpackages turn values
// into plans: the same input gives the same plan, on any machine, at any time.
// Nothing below this folder may read a clock, touch the disk or the network,
// log, start a goroutine, or know a runtime; a test in this folder says what is
// banned, and why. Whoever carries a plan out lives elsewhere.
package policy
