// Package oracle judges what the collector of owner references and those of other
// garbage did, from nothing but the history of etcd and the word of the clients that
// worked beside it. It shares no code with ebb.
//
// It is told each revision in order: [Oracle.Put] and [Oracle.Delete]. The state
// before a revision is therefore exactly what the API server's transaction found.
// Clients announce what they are about to delete or to let go ([Oracle.Deleting],
// [Oracle.Lifting]), and mark the objects that they patch with the annotation
// [MarkAnnotation]. The namespace controller deletes what is in a terminating
// namespace. Everything else that goes or changes was the collector's doing.
//
// # What is wrong at once
//
//   - An object goes although an owner at the coordinates of the reference lives
//     and is not being deleted in the foreground; an owner that is being orphaned
//     lives. An owner that nobody can know of counts as living.
//   - An object goes that has no owners, or one that the rules never collect
//     (cluster-scoped, with an owner that has a namespace). The exception is other
//     garbage, such as Pods that ended: collectors.go has the rules.
//   - A Pod is deleted by force, or the data of a volume, although these rules keep it.
//   - An object goes whose owners are gone, but by orphaning.
//   - foregroundDeletion comes off while an object blocks.
//   - A reference to a living owner, or somebody else's finalizer, is taken away.
//
// # What is excused
//
// An owner that was being deleted in the foreground until a moment ago
// ([Config.Race]): a second DELETE changes its finalizers and nothing of the
// dependent, so no precondition guards that. A blocking reference that the collector
// may not have seen ([Config.Unseen]): no watch is bound to be on time, and the
// foreground order has no barrier. The same holds for an object that keeps garbage of
// another type, such as the Node of a Pod. All are counted.
//
// # What is missing in the end
//
// [Oracle.Outstanding] looks at everything and says what is left to do. It is empty
// some time after the last fault, or the collector has forgotten something.
//
// After a restore of etcd ([Oracle.Restore]) a new epoch begins: who is there
// lives, whatever was known before. Nothing is excused because the collector could
// not know.
package oracle
