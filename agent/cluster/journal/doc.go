// Package journal keeps the UIDs of orphaned owners in the cluster, so that the next leader knows
// them. A dependent that is first seen after its owner is gone then loses its reference, and is not
// deleted.
//
// # Layout
//
// A journal is a chain of ConfigMaps. The head has the newest entries, the names of the sealed
// segments, and the token of the process that writes. When the head is full, its entries move into
// a new segment, which never changes, and the head starts empty. Each key of a segment's data is a
// minute. Its value is the UIDs recorded in that minute, one a line.
//
// # What is promised
//
// [Journal.Write] returns without an error once everything it was given is stored. [Journal.Has]
// returns true only for UIDs that are stored.
//
// [Journal.TakeOver] writes the head with a token of its own. Every write is a compare-and-swap of
// the head, so a predecessor that wakes up late cannot change anything: its Write returns
// [ErrFenced]. TakeOver returns all that any process has stored before, and what this process knew:
// after a restore of etcd it writes the union.
//
// # Bounds
//
// A segment has at most 64 KiB of UIDs, which also bounds the size of a write. The chain has at
// most 64 segments: some 110,000 UUIDs. A full journal refuses new entries with [ErrFull].
//
// # Failure modes
//
// A write whose answer is lost counts as not stored, although it may be: storing twice is harmless.
// A segment that a user deleted is lost, and is reported in [Taken].Lost. Two processes without an
// election fence each other in turn.
package journal
