// Package node is the agent of one node: it watches the filesystems that
// containers fill, knows when each image was last used, and removes images
// when, and only as far as, the policy asks for it.
//
// # Who owns what
//
// One goroutine, [Agent.Run]'s loop, owns every record, plan and line. All
// else only talks to it through channels:
//
//   - the connector dials the runtime and then watches its events,
//   - the crossing reader waits for the kernel's ring buffer,
//   - the mount watcher waits for mounts to change,
//   - the resolver asks the runtime where layers are, one at a time,
//   - the saver writes the state file behind,
//   - the HTTP server reads metrics, and asks the loop for explanations.
//
// The loop has no ticker. It sleeps until a crossing, an event, an answer, or
// the earliest of its alarms (alarms.go): the moment at which the policy said
// its answer changes, a pause after a burst of events, a retry, the reconcile.
//
// # Filesystems
//
// Five directories are watched (filesystems.go): those of unpacked layers, blobs
// and writable layers, which the runtime names, the kubelet's and that of pod
// logs. A filesystem is a superblock; however many directories are on it, it has
// one line, is read once, and one crossing of it wakes the loop once. Where
// directories are is looked at again whenever the kernel says that mounts
// changed, which costs three system calls each if nothing did, and with each
// look at everything. A filesystem that no directory leads to any more loses its
// line: another one can get its number.
//
// Reclaim works on filesystems that hold images (stores.go). There are two if
// blobs are apart from unpacked layers; each is decided on by itself, with a
// graph in which what is elsewhere weighs nothing, and the one that is further
// over its line comes first. For the others the agent reads, says so once, and
// sets the line a point lower: nothing that it removes today is there. Snapshots
// of several snapshotters are taken to be on one filesystem.
//
// # What is trusted
//
// A plan is made from one reading of the world and may be old by the time a
// step is due. The executor (executor.go) therefore asks again before each
// removal, and reads the disk again after it. Every removal on the node goes
// through it: caps, dry run, reasons, metrics and logs live there only.
//
// # When things fail
//
// Without the runtime the agent is not ready and tries again with backoff.
// Without kernel programs last use comes from runtime events and the disk is
// read every few seconds, which is said in a warning and a metric. Without a
// writable state file it works from memory. An image whose removal fails is
// left alone for a while and the others go on.
package node
