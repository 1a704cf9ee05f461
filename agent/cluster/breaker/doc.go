// Package breaker bounds deletions: all of them together by a sliding window, and those of each
// cascade by an envelope, a token bucket for each root owner.
//
// When the window is full, the caller opens the circuit breaker: all deletions stop until a person
// closes it. A spent envelope only slows its cascade down to the rate at which the bucket refills;
// no other cascade is held.
//
// # Saved counts
//
// The counts outlive the process: [Breaker.Snapshot] encodes them for the next leader, and
// [Breaker.Restore] takes them over. A snapshot reserves some deletions ahead, so that a crash
// forgets nothing. No more than these are admitted until a newer snapshot is saved
// ([Breaker.Saved]). The process that restores a snapshot counts them as done. The last snapshot of
// an orderly end reserves none.
//
// A root that no snapshot names yet may spend 512 deletions: a crash can forget that much of an
// envelope. The window counts them all the same.
//
// The package does no I/O and reads no clock. It is not safe for concurrent use.
package breaker
