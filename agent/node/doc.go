// Package node is the agent of one node: it watches the filesystem that holds
// the container images, knows when each image was last used, and removes
// images when, and only as far as, the policy asks for it.
//
// # Who owns what
//
// One goroutine, [Agent.Run]'s loop, owns every record, plan and line. All
// else only talks to it through channels:
//
//   - the connector dials the runtime and then watches its events,
//   - the crossing reader waits for the kernel's ring buffer,
//   - the resolver asks the runtime where layers are, one at a time,
//   - the saver writes the state file behind,
//   - the HTTP server reads metrics, and asks the loop for explanations.
//
// The loop has no ticker. It sleeps until a crossing, an event, an answer, or
// the earliest of its alarms (alarms.go): the moment at which the policy said
// its answer changes, a pause after a burst of events, a retry, the reconcile.
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
