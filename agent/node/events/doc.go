// Package events tells people about this node by Kubernetes Events: "kubectl describe node"
// shows them. Each is a fact that is also logged; nothing depends on them.
//
// # Invariants
//
//   - [Recorder.Record] takes no time and does no I/O: it may be called under any lock.
//   - At most one Event goes out for a reason in a minute, 20 in an hour, and 10 of these for
//     one reason. So one that comes often leaves room for the others.
//   - A fact that is repeated within the hour is counted in the Event that is there.
//   - At most 32 facts wait. Beyond that the oldest one of the reason with most goes.
//   - Each fact is counted once, as sent, failed or dropped.
//
// # Failure modes
//
// A request has five seconds, and one more attempt if it may succeed then, after as long as
// the server asks for. A fact that could not be sent is lost. A missing right is a condition:
// it is logged once, and again when it is there.
package events
