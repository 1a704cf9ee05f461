// Package peers runs the real Kubernetes beside throwaway nodes, as children of the caller:
// kubelets, and a control plane. A control plane is etcd, the API server and, if asked for,
// controller manager and scheduler. Tests and benchmarks compare ebb with them, run beside
// them, and break them. tools/peers/build builds the binaries from their Go modules.
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
//     inherit the lock. [Clean] deletes exactly the directories whose lock is free. The
//     files of a kubelet are removed with its node ([node.Clean]).
//   - Only clients with a certificate of the control plane's own authority, or with a
//     token, are admitted.
//   - A port remains reserved while its component is down, so that a kubeconfig remains
//     valid over restarts.
//   - A kubelet does not change the machine: in its mount namespace its fixed paths and the
//     kernel settings that it writes are private files. Only mounts below its root
//     directory are shared, because containerd has to see them.
//
// # Failure modes
//
// The error of a start includes the end of the component's log; everything started until
// then is ended. A component that ends by itself stays down: Running reports it, and Start
// starts it again on the same data. A kubelet's port cannot be reserved: if another process
// takes it, the kubelet's start fails. The API server cannot reach a kubelet, for logs or
// exec: a kubelet listens on the loopback address, which a node's address can never be.
package peers
