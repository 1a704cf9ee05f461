// Package events reports facts about this node as Kubernetes Events: "kubectl describe node" shows
// them. Each fact is also logged; nothing depends on the Events.
//
// # Invariants
//
//   - [Recorder.Record] takes no time and does no I/O: it may be called under any lock.
//   - Each reason has at most one Event a minute. In an hour there are at most 20 Events, and at
//     most 10 of one reason. So a frequent reason leaves room for the others.
//   - A fact that repeats within the hour is counted in the Event that exists.
//   - At most 32 facts wait. Beyond that, the reason with the most waiting facts loses its oldest.
//   - Each fact is counted once, as sent, failed or dropped.
//
// # Failure modes
//
// A request times out after five seconds. If it may succeed later, it is tried once more, after the
// delay that the server asks for. A fact that could not be sent is lost. A missing permission is a
// condition: it is logged once, and again when the permission is there.
package events
