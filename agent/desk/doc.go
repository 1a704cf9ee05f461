// Package desk connects an operator's machine to the node agents. It finds the agents' pods. To
// each agent's admin socket it speaks HTTP over an exec of "ebb-agent dial-stdio" in the pod, as
// kubectl exec would: over WebSockets, or over SPDY if those are refused. On a node it speaks to
// the socket directly.
//
// # Invariants
//
//   - It opens no port. It needs no rights but to list pods and to exec in one namespace.
//   - A node's success or failure affects only that node's result.
//   - Everything from the other side is bounded. What becomes part of an error is escaped.
//   - A connection ends with its request, its client, or the context of either.
//
// # Failure modes
//
// If an exec is refused, the error names the missing right. If the agent is older or newer than the
// command, the error says so: each request and each answer carries the sender's version. The
// library's handshakes cannot be cancelled. If an API server accepts a connection and then sends
// nothing, a goroutine waits. Over WebSockets it waits until the deadline of the client's context.
// Over SPDY, which is tried only after an answer, it waits until the API server closes the
// connection.
//
// The caller's name is the API server's answer to a SelfSubjectReview, and is sent in a header. An
// agent cannot verify it: a client that can exec can send any header. The API server's audit log
// has the proof.
package desk
