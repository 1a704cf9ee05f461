// Package orphans reports what a garbage collector leaves behind: objects whose owners cannot
// be resolved, objects that are stuck in their deletion and what holds them, and Helm releases
// with too long a history. It only reports; nothing here asks for an action.
//
// [Inspection] receives what was read of a cluster, once, in any order of types, and returns
// [Finding]s. Owners are judged by the graph and the rules of policy/cascade, so that the
// report agrees with the collector.
//
// # The caller's duties
//
//   - Call Types first. Call Listing before the objects of a list, and Synced or Unreadable
//     after it.
//   - Call Questions until there are none, and Answer for each. They are about owners that no
//     list had.
//   - Then call Findings. Where a garbage collector runs, findings about owners that are gone
//     may soon be over: see [Finding.Passes].
//
// # Guarantees
//
// An owner that could not be read is never called absent: its reason is OwnerUnknown. A
// command for an owner never deletes an object. It removes or corrects a reference, if the
// object and its reference are still the same. A command removes a finalizer only from an
// object that is being deleted, and only if no type of its controller is served or it is a
// garbage collector's own. For a release, commands delete only revisions with a status of the
// past (superseded, failed, uninstalled), never the deployed one and never the newest.
//
// # Cost
//
// The graph takes about 200 bytes per object. Beside it, only what is reported is kept.
package orphans
