// Package peers runs the real Kubernetes beside throwaway nodes: a control plane (etcd, the
// API server and, if asked for, controller manager and scheduler) and kubelets, as children
// of the caller. Tests and benchmarks compare ebb with them, live beside them, and break
// them. tools/peers/build builds the binaries from their Go modules.
//
// # What there is
//
// A [ControlPlane] owns BASE/NAME: the lock, keys and certificates (pki), etcd's data,
// kubeconfigs, logs. It listens on the loopback address and on unix sockets in that
// directory. A [Kubelet] keeps its files in the directory "kubelet" of its [node.Node], and
// its root directory and the logs of pods on that node's disk. The command
// kubernetes/kubelet-gc is the kubelet's collector of containers alone. Tests that need the
// binaries run in "make e2e": see peerstest.
//
// # Invariants
//
//   - No component outlives the process that started it (PR_SET_PDEATHSIG).
//   - A control plane's directory is locked by its owner and by every component, which
//     inherit the lock. [Clean] deletes exactly those that are free. What a kubelet leaves
//     goes with its node ([node.Clean]).
//   - Only who has a certificate of the control plane's own authority, or a token, gets in.
//   - A port stays reserved while its component is down, so that a kubeconfig holds over
//     restarts.
//   - A kubelet changes nothing of the machine: in its mount namespace its fixed paths and
//     the kernel settings that it makes are private files. Only what is mounted below its
//     root directory is shared, because containerd has to see it.
//
// # Failure modes
//
// An error of a start carries the end of the component's log; what was started until then
// is gone. A component that ends by itself stays down: Running tells, and Start starts it
// again on the same data. A kubelet's port cannot be reserved: if another took it, its
// start fails. The API server cannot reach a kubelet, for logs or exec: a kubelet listens on
// the loopback address, and a node's address is never that one.
package peers
