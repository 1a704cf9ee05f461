// Package history keeps what the agent removed and refused, in buckets of the state file.
//
// [History.Begin] records a removal before it is tried. Its [Attempt] records the outcome later.
// Before the caller removes anything, it waits with [History.Durable] until the beginning is in the
// file. So after kill -9 the file has an entry for everything that was removed. An entry without an
// outcome gets one from the next list of what exists ([History.Listed]).
//
// # Invariants
//
//   - One goroutine writes ([History.Run]). Entries that arrive during a write go into the next
//     transaction, so a group of images costs one.
//   - No call fails, and none waits longer than a bounded time: no removal depends on the disk of
//     the state file. While a write hangs, one caller waits for it, not each.
//   - Keys come from a sequence, not from a clock. They order entries by when they were begun.
//   - Removals and refusals have a bucket and a bound each: no number of refusals pushes a removal
//     out. Each append deletes a few of the entries that are too old or too many.
//   - Only the keys are read as a whole, once, when the file is opened.
//   - A refusal that repeats the one before about the same thing gets no entry.
//
// # Failure modes
//
// A failed write is a condition. Its entries wait in memory, bounded, for the next append, and are
// tried again each minute. A bucket with invalid keys is deleted and created again; an invalid
// entry is left out. A file with damaged pages is moved aside as a whole (package state). An entry
// is too old only if both ebb's clock and the wall clock say so, because either can be wrong.
package history
