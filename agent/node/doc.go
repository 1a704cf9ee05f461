// Package node is the agent of one node: it watches the filesystems that containers
// fill, knows when each image was last used, and removes images when, and only as far
// as, the policy asks for it.
//
// # Who owns what
//
// compose.go wires the parts. Each owns its records and metrics (see its own doc.go):
// watermark (filesystems), lastuse (images and layers), pods (who wants which image), reclaim
// (plans, runs), workloads (dead containers, logs), saver (the file), history (what was removed and
// refused); stats decides nothing.
// Here are health, the pages and what people steer by (admin), and what brings the parts to
// work: the loop, which hears of everything and asks each part for its deadline (Next; nothing
// ticks), and three workers: looks owns the latest inventory and runs that people ask for, disks
// the crossings to answer, dead whether pods are to be read.
//
// # The way of an image
//
// From a crossing to its removal: disks.go, look.go, reclaim/plan.go, reclaim/run.go,
// reclaim/withdraw.go.
//
// # Goroutines
//
// The loop; looks, disks and dead, which do what takes long; the connector, which dials the
// runtime and watches its events; the reader of crossings; the watcher of mounts; the resolver of
// layers; the source of pods; the executor of workloads; the saver; the writer of the history; the
// poster of Events; the HTTP servers.
//
// The loop, the three workers and requests use the state under one lock (package monitor), which
// is given up around each call of the runtime, the API server or a disk, and each wait: what was
// read before may have changed after it. The others have no part of the state, and speak to the
// loop through channels. Health may be used without the lock.
//
// # When things fail
//
// Without the runtime the agent is not ready and tries again with backoff. Without
// kernel programs last use comes from runtime events and the disk is read every few
// seconds. Without a writable state file it works from memory. An image whose removal
// fails is left alone for a while, and the others go on.
package node
