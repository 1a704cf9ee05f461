// Package container decides which dead containers and pod sandboxes of a node should be
// removed.
//
// [Decide] is a pure function: one [Snapshot] of the node and a time go in, one [Plan] comes
// out. It reads no clock, does no I/O, keeps nothing and changes nothing it was given; the
// same input, in any order, gives the same plan. The caller owns all state and executes the
// steps. Before each step it asks the runtime again. If a step failed, it skips the steps
// that depend on it ([Step.RestsOn]). [DecideLogs] does the same for logs.
//
// # Invariants
//
// Only containers and sandboxes with the kubelet's pod labels are ever touched ([Identify]),
// and never a running container. While the source of pods cannot be reached, no pod counts as
// gone. An unknown time, or one in the future, counts as now: doubt makes an object younger,
// never older.
//
// With StartGrace 0, AgeFrom creation and StaticPodsKnown, the removals are exactly the
// kubelet's. This holds if everything carries labels, no time is in the future and no step
// failed. "make e2e" compares the removals and their CRI calls with those of the kubelet's
// own package in 100,000 worlds.
//
// # Failure modes
//
// An invalid policy removes nothing. An inconsistent item (an ID listed twice, a state that
// the CRI does not have) is kept, and so is its sandbox. An item without an ID cannot be
// named and gets no decision. A container whose removal failed stays until RetryAt. It still
// counts as removed, so that no other container is removed in its place.
//
// # Sources
//
// The rules are those of the kubelet of Kubernetes 1.36, in k8s.io/kubernetes:
//   - the passes and sandboxes: pkg/kubelet/kuberuntime/kuberuntime_gc.go;
//   - when a pod's content may be removed: pkg/kubelet/pod_workers.go
//     (ShouldPodContentBeRemoved, ShouldPodRuntimeBeRemoved);
//   - the defaults: cmd/kubelet/app/options/options.go;
//   - the UIDs of static pods: pkg/kubelet/config/common.go.
package container
