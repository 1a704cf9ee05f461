// Package preview answers for `ebb cascade` what would be deleted with an object. [Simulate] reads
// the metadata of everything from a live API server. policy/cascade/preview decides. Owners that
// the answer rests on and that were in no list are read live. The answer is written as a tree or as
// JSON. Only reads are sent.
//
// # Invariants
//
//   - A type that could not be read is listed (NotSeen), and makes the answer
//     incomplete, not an error: its objects are missing as dependents, and as owners
//     they count as unknown unless a read of that very object succeeds.
//   - The target's own type must be readable.
//   - The tree is bounded; what it leaves out is counted. Names come from the API
//     server and are cleaned before they reach a terminal.
//
// # Who owns what
//
// [Simulate] starts a goroutine for each type and ends all of them before it returns. What they
// read is merged under a lock.
//
// # Failure modes
//
// Lists of many types do not show one moment. An owner that was created in between is found by
// a live read. Every other change between the reads and the deletion makes the answer wrong. So can
// an owner that was deleted with policy orphan: only the controller still knows it.
// Everything is held in memory: some 2 KB for each object.
package preview
