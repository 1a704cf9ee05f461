// Package node is the agent of one node. It watches the filesystems that containers fill, and records
// when each image was last used. It removes images when the policy asks for it, and only as many as the
// policy asks for.
//
// # Who owns what
//
// compose.go wires the parts. Each owns its records and metrics (see its package documentation). They
// are watermark (filesystems), lastuse (images and layers), pods (which pods want which image), reclaim
// (plans, runs), workloads (dead containers, logs), saver (the state file) and history (what was removed
// and refused). No decision depends on stats.
// This package has health, the pages, the requests by which people control the agent (admin), the loop
// and three workers. The loop receives all events, and asks each part for its next deadline (Next):
// nothing ticks. Of the workers, looks owns the latest inventory and the runs that people ask for, disks
// the crossings to answer, dead whether pods are to be read.
//
// # The way of an image
//
// From a crossing to its removal: disks.go, look.go, reclaim/plan.go, reclaim/run.go,
// reclaim/withdraw.go.
//
// # Goroutines
//
// The loop; the workers looks, disks and dead, which do what takes long; the connector, which dials the
// runtime and watches its events; the reader of crossings; the watcher of mounts; the resolver of
// layers; the source of pods; the executor of workloads; the saver; the writer of the history; the
// poster of Events; the HTTP servers.
//
// The loop, the three workers and requests use the state under one lock (package monitor). They release
// it around each call of the runtime, the API server or a disk, and around each wait: what they read
// before may have changed after it. The other goroutines have no part of the state, and use channels to
// reach the loop. Health may be used without the lock.
//
// # When things fail
//
// Without the runtime the agent is not ready, and retries with back-off. Without kernel programs, last
// use comes from runtime events, and the agent reads the disk every few seconds. Without a writable state
// file it works from memory. If a removal fails, the agent leaves that image alone for a while, and
// continues with the others.
package node
