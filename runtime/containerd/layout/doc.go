// Package layout knows where distributions of Kubernetes put containerd's socket, and finds
// the one of this node.
//
// # What is promised
//
// [Find] returns a socket only if no other known socket exists. Two containerds on one machine
// are not rare: Docker brings one beside that of k3s or MicroK8s. One of them may merely be
// restarting, so taking the one that answers would sometimes manage the images of the wrong
// one. So several sockets are an error, and so is none. The errors name the sockets found, or
// all that was tried, and the field to set.
//
// Nothing is opened or called: Find only checks that the path is a socket. A path that links
// to another known socket is the same socket.
//
// # Failure modes
//
// A socket may exist although nothing listens on it: containerd was killed, or a distribution
// was removed and has left it in /run until the next boot. Connecting to it then fails with
// an error. If there is a second socket, a person has to choose.
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
