// Package breaker bounds deletions: all of them together by a sliding window, and those of
// each cascade by an envelope, a token bucket for each root owner.
//
// When the window is full, the caller opens the circuit breaker: all deletions stop until a
// person closes it. A spent envelope only slows its cascade down to the rate at which the
// bucket refills; no other cascade is held.
//
// # Saved counts
//
// The counts outlive the process: [Breaker.Snapshot] encodes them for the next leader, and
// [Breaker.Restore] takes them over. So that a crash forgets nothing, a snapshot reserves
// some deletions ahead: no more than these are admitted until a newer snapshot is saved
// ([Breaker.Saved]), and whoever restores it counts them as done, except after an orderly
// end. A root that no snapshot names yet may spend 512 deletions: a crash can forget that
// much of an envelope. The window counts them all the same.
//
// Nothing here does I/O, knows the time, or is safe for concurrent use.
package breaker
