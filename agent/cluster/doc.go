// Package cluster is the controller of one cluster: it collects API objects whose
// owners are gone, as the kube-controller-manager's garbage-collector-controller
// does.
//
// # Who owns what
//
// policy/cascade decides. One goroutine, [Controller.Run]'s loop, owns its graph, the
// types and the limit of requests; all others only talk to it through
// channels:
//
//   - a follower for each type hands over what it listed and watched, batch by
//     batch, and waits until a batch was applied: what is in it is not copied, and
//     a follower is never ahead of the graph by more than one batch,
//   - workers carry actions out and send back how they went,
//   - the scout asks which types there are,
//   - the journal of orphaned owners is written beside the loop (orphans.go),
//   - the herald creates events, and nothing depends on them,
//   - the HTTP server asks for explanations.
//
// The loop has no ticker. It sleeps until an answer, an input or the collector's
// next moment, and takes answers first: a free worker is worth more than a graph
// that is newer by a batch.
//
// # The one door
//
// Every deletion and every patch goes through door.go: mode, pause, brake,
// exclusions, the record of decisions, log and metrics live there only. A pause is
// in force when the call returns; what was sent before is waited for. The brake
// (package brake) counts deletions before they are sent, so it never lets one too many
// through; it holds deletions alone, all of them or those of one root owner, and those
// wait in the graph, not in a worker. A pause, the brake and its counts outlive the
// process (keeper.go): whoever leads next asks the Lease how it was left before
// anything is sent. What is excluded is let through for one thing, the removal of a
// collector's finalizer from what somebody deleted.
// In mode observe the collector is told that an action was withheld, and does not
// ask again until the object changes.
//
// # Who may ask
//
// What changes something is on the admin socket alone. What names objects (/preview,
// /explain, /decisions, /types) is there and on a loopback address, never on one that is
// open: it tells of objects that who asks may have no right to read. A preview copies
// what bears on it out of the graph, in the loop and bounded (preview.go), and is
// computed on the copy.
//
// # Types
//
// They are discovered at the start, now and then, and after a list or a watch named a
// UID or a generation of a CustomResourceDefinition or an APIService that was not known:
// a few times within half a minute, until it is served. What changes neither shares a
// few discoveries, then one a minute (definitions.go). A type is gone if its definition
// was seen to be deleted, or if discovery lacks it for long and its own list and watch
// are answered a bare 404: who answers discovery may be older than who serves it. What part of discovery failed (Partial), or all of it, changes nothing. A resource
// stays followed in the version in which it is, as long as that is served.
//
// # The journal of orphaned owners
//
// Before the finalizer orphan comes off, the owner's UID is stored in the journal
// (package journal); the door lets no such finalizer go otherwise. Nothing is sent before
// the journal was taken over, which also ends a predecessor that wakes up late. What is
// asked for within 100 ms is written together. Entries go hourly at most (sweep.go), once
// every type has told all that was before; what cannot be read keeps them. In mode observe
// the journal is read and not written.
//
// # Leading
//
// [Controller.Run] is to be called by the leader only. A standby follows nothing:
// it costs no memory and no watches, and the initial lists take less time than the
// Lease that it has waited for. When the Lease is lost nothing more is sent, and what is
// on its way is given up; another leader's requests carry preconditions, so that
// both are safe, only redundant.
//
// # When things fail
//
// A restart loses nothing: pending work is in the objects' finalizers. The API
// server being away, slow or overloaded lowers the concurrency to one request at a time
// (limiter.go), with pauses. A type that cannot be read is said once, and holds
// only what must not go on without it. An etcd that was restored is
// noticed by versions that went backwards or, after an absence of the API server, by
// objects in a list that contradict what was told; everything is listed again then, and
// what was proven gone is not believed any more. After an absence that is so in any case,
// and those types are listed for which the Lease does not vouch (runtime/kube/metadata).
//
// Sources: k8s.io/kubernetes/pkg/controller/garbagecollector (v1.36); kubernetes
// issue 60037 (empty discovery); client-go tools/record and tools/leaderelection.
package cluster
