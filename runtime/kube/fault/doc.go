// Package fault explains what goes wrong between a client and an API server or a
// kubelet, for the clients beside it (runtime/kube, runtime/kube/metadata): an error
// that says what was asked, what became of it, and what a person can do; the kinds of
// such errors; the API's Status; and text of the other side made fit to be printed.
//
// # Invariants
//
//   - What the other side says is bounded and cleaned before it is part of an error.
//   - An error Is its kind, a sentinel of this package or of the one that made it, and
//     its cause.
//
// It holds no state and does no I/O.
package fault
