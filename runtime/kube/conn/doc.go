// Package conn is how ebb's clients of an API server or a kubelet are connected to it:
// what runtime/kube, which the agent links, and runtime/kube/metadata, which rests on
// client-go, have in common below requests and answers.
//
// # What is promised
//
//   - Certificates and authorities are asked for anew for each connection: they may be
//     replaced while the program runs.
//   - A connection whose other end vanished is noticed within 45 seconds, where it
//     speaks HTTP/2: by pings.
//   - A [Silence] ends what hears nothing for too long, and says so.
//   - Attempts of many clients do not come back at the same moment.
//
// It links neither client-go nor anything of Kubernetes.
package conn
