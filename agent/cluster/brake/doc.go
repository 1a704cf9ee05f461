// Package brake bounds deletions: all of them together within a window that slides, and
// those of each cascade by an envelope of its own, a token bucket for each root owner.
//
// A window that is full is for the caller to act on: it stops until a person says
// otherwise. An envelope that is spent only slows its cascade down: it goes on at the
// envelope's slope, and no other one is held.
//
// # What is kept
//
// The counts outlive the process: [Brake.Record] is a text for whoever deletes next, and
// [Brake.Recall] takes it over. So that a crash forgets nothing, a text claims some
// deletions ahead: no more than that are let through until a newer one was kept
// ([Brake.Kept]), and who recalls it takes them for done, unless it says that it was
// the last one of an orderly end. A root that no text names yet may spend 512 before one
// has to: that much of an envelope a crash can forget. The window counts it all the same.
//
// Nothing here does any I/O, knows the time, or is safe for concurrent use.
package brake
