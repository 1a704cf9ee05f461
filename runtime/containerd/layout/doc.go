// Package layout knows where distributions of Kubernetes put containerd's socket, and
// finds the one of this node.
//
// # What is promised
//
// [Find] names a socket only if it is the only one of those known. Two containerds on
// one machine are not rare (Docker brings one beside that of k3s or MicroK8s), and one
// of them may merely be restarting: to take the one that answers would now and then be
// to look after the images of the wrong one. So several are an error, and so is none.
// Both name all that was tried and the field to set.
//
// Nothing is opened or asked: a path is looked at, and must be a socket. A name that
// links to another of them is the same one.
//
// # Failure modes
//
// A socket may be there although nothing listens on it (a containerd that was killed,
// a distribution that was removed and has left it in /run until the next boot). Whoever
// connects is reported; with a second one beside it, a person has to choose.
//
// In a container the directories must be mounted at the same paths, and not the sockets
// themselves: containerd makes a new one when it starts.
//
// # Sources
//
// containerd's defaults (defaults/defaults_unix.go); k3s pkg/agent/config (RKE2 embeds
// k3s and has its socket, with a root of its own); MicroK8s' microk8s-resources/
// default-args/containerd; k0s pkg/component/worker/containerd.
package layout
