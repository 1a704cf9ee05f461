// Package journal keeps the UIDs of orphaned owners in the cluster, so that whoever leads
// next knows them: a dependent that is seen after its owner has gone loses its reference,
// not its life.
//
// # Layout
//
// A journal is a chain of ConfigMaps. The head has the newest entries, the names of the
// sealed segments, and the token of the process that writes. A head that is full is
// copied into a new segment, which never changes, and begins anew. Each key of a
// segment's data is a minute, its value the UIDs recorded in it, one a line.
//
// # What is promised
//
// [Journal.Write] returns without an error once everything it was given is stored.
// [Journal.Has] names nothing that is not.
//
// [Journal.TakeOver] writes the head with a token of its own. Every write is a
// compare-and-swap of the head, so a predecessor that wakes up late changes nothing any
// more: its Write returns [ErrFenced]. What TakeOver returns is all that anybody has
// stored before, and what this process knew: after a restore of etcd it writes the union.
//
// # Bounds
//
// A segment has at most 64 KiB of UIDs, which is what a write costs at most, and the
// chain 64 segments: some 110,000 UUIDs. A full journal refuses with [ErrFull].
//
// # Failure modes
//
// A write whose answer is lost counts as not stored, and may be: storing twice is
// harmless. A segment that somebody deleted is lost, and reported ([Taken].Lost). Two
// processes without an election fence each other in turn.
package journal
