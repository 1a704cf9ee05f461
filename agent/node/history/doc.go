// Package history keeps what the agent removed and refused, in buckets of the state file.
//
// A removal is begun, and its [Attempt] says later what became of it. Whoever removes something
// waits with [History.Durable] until the beginning is in the file. So after kill -9 the file has an
// entry of all that went. What was begun and has no outcome gets one from the next list of
// what is there ([History.Listed]).
//
// # Invariants
//
//   - One goroutine writes ([History.Run]). What came while it wrote goes into its next
//     transaction, so a group of images costs one.
//   - Nothing fails for a caller, and nobody waits longer than a bounded time: no removal depends
//     on the disk of the state file. While a write hangs, one caller waits for it, not each.
//   - Keys come from a sequence, not from a clock. They order entries by when they were begun.
//   - Removals and refusals have a bucket and a bound each: no number of refusals pushes a removal
//     out. What is too old, or too much, is deleted by the appends, a few entries each.
//   - Nothing is read as a whole but the keys, once, when the file is opened.
//   - A refusal that repeats the one before about the same thing is no entry.
//
// # Failure modes
//
// A write that fails is a condition. Its entries wait in memory, bounded, for the next append, or
// for the state to be written again. A bucket whose keys make no sense is deleted and made anew; an
// entry that makes no sense is left out. A file with damaged pages is moved aside as a whole
// (package state). An entry is old only by ebb's clock and by the wall clock: one of them can be
// wrong.
package history
