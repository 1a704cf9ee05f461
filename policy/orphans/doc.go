// Package orphans judges what a garbage collector leaves behind: objects whose owners cannot
// be resolved, what is stuck in its deletion and by whom, and releases with too long a
// history. It reports; nothing here asks for an action.
//
// [Look] takes what was read of a cluster, once, in any order of types, and gives
// [Finding]s. Owners are judged by the graph and the rules of policy/cascade, so that the
// report says what the collector thinks.
//
// # The caller's duties
//
//   - Types first; Listing before the objects of a list, Synced or Unreadable after it.
//   - Questions until there are none, each with an Answer: owners that no list had.
//   - Then Findings. What it says of owners that are gone may be over in a moment, where a
//     collector runs: see [Finding.Passes].
//
// # What is promised
//
// What could not be read is never called absent: its reason is OwnerUnknown. A command
// that is proposed for an owner never deletes: it takes a reference away, if it is still
// there, of the same object. A command removes a finalizer only of an object that is being
// deleted, and only if no type of its controller is served or it is a garbage collector's own.
// Of a release only revisions are proposed that have a status of the past (superseded,
// failed, uninstalled), never the one that is deployed, never the newest.
//
// # Cost
//
// The graph takes some 200 bytes an object. Beside it only what is reported is kept.
package orphans
