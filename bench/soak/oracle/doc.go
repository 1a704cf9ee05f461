// Package oracle judges what ebb's collectors did: that of owner references, and those of other
// garbage. It uses nothing but the history of etcd and the announcements of the clients that
// worked beside the collectors. It shares no code with ebb.
//
// It receives each revision in order: [Oracle.Put] and [Oracle.Delete]. The state before a
// revision is therefore exactly the state that the API server's transaction found. Clients
// announce what they are about to delete, or to remove finalizers from ([Oracle.Deleting],
// [Oracle.Lifting]), and mark the objects that they patch with the annotation [MarkAnnotation].
// The namespace controller deletes the objects in a terminating namespace. Every other deletion
// or change is the collector's.
//
// # What is wrong at once
//
//   - An object is deleted although an owner at the coordinates of the reference lives and is not
//     being deleted in the foreground. An owner that is being deleted with orphan counts as
//     living. So does an owner whose state cannot be known.
//   - An object is deleted that has no owners, or one that the rules never collect
//     (cluster-scoped, with an owner that has a namespace). The exception is other garbage, such
//     as Pods that ended: collectors.go has the rules.
//   - A Pod is deleted by force, or the data of a volume is deleted, although these rules keep it.
//   - An object is deleted whose owners are gone, but were deleted with orphan.
//   - foregroundDeletion is removed while an object blocks.
//   - A reference to a living owner, or a foreign finalizer, is removed.
//
// # What is excused
//
// The oracle excuses the deletion under an owner that was being deleted in the foreground until a
// moment ago ([Config.Race]). A second DELETE changes the owner's finalizers and nothing of the
// dependent, so no precondition guards against that.
//
// The oracle also excuses the removal of an owner despite a blocking reference that the collector
// may not have seen ([Config.Unseen]). No watch is bound to be on time, and the foreground order
// has no barrier. The same holds for an object that keeps garbage of another type, such as the
// Node of a Pod. All excuses are counted.
//
// # What is missing in the end
//
// [Oracle.Outstanding] looks at everything and returns what is left to do. It must be empty some
// time after the last fault. Otherwise the collector has forgotten something.
//
// A restore of etcd ([Oracle.Restore]) begins a new epoch. The objects that then exist live,
// whatever was known before. The restore itself excuses nothing, although the collector could not
// know of it.
package oracle
