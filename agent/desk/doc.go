// Package desk is the way from an operator's desk to the node agents. It finds their pods,
// and speaks HTTP to each agent's admin socket over an exec of "ebb-agent dial-stdio" in
// its pod, as kubectl exec would: over WebSockets, or SPDY where those are refused. On a
// node it speaks to the socket itself.
//
// # Invariants
//
//   - It opens no port and asks for no right but to list pods and to exec in one namespace.
//   - What one node does, or fails to do, is that node's result, and nobody else's.
//   - All that the other side says is bounded; what of it becomes part of an error is escaped.
//   - A connection ends with its request, its client, or the context of either.
//
// # Failure modes
//
// An exec that is refused names the right that is missing. An agent that is older, or newer,
// than the command says so: the versions of both go with each request and each answer. The
// library's handshakes cannot be cancelled. An API server that accepts a connection and then
// says nothing holds a goroutine: over WebSockets until the deadline of the client's context,
// over SPDY, which is tried only after an answer, until it closes the connection.
//
// Who asks is what the API server says of them (SelfSubjectReview), and goes along in a
// header. An agent cannot verify it: whoever can exec can write any header. The API server's
// audit log has the proof.
package desk
