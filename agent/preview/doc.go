// Package preview answers "what would go if I deleted this?": `ebb cascade`. [Look]
// reads the metadata of everything from a live API server; [Ask] has a running
// controller answer from its graph (agent/cluster, with [Choose], [Decide] and
// [NameFinalizers] from here). policy/cascade/preview decides, owners that the answer
// rests on and that nobody had are read live, and it is written as a tree or as JSON.
// Nothing is sent but reads.
//
// # Invariants
//
//   - A type that could not be read is listed (NotSeen), and makes the answer
//     incomplete, not an error: its objects are missing as dependents, and as owners
//     they count as unknown unless a read of that very object tells.
//   - The target's own type must be readable.
//   - The tree is bounded; what it leaves out is counted. Names come from the API
//     server and are cleaned before they reach a terminal.
//
// # Who owns what
//
// [Look] starts a goroutine for each type and ends all of them before it returns. What they
// read is merged under a lock.
//
// # Failure modes
//
// Lists of many types are not of one moment; an owner that was made in between is found by a
// live read. All else that changes between the look and the deletion makes the answer
// wrong. Everything is held in memory: some 2 KB an object.
package preview
