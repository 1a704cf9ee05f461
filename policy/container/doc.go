// Package container decides which dead containers and pod sandboxes of a node should be
// removed.
//
// [Decide] is a pure function: one [Snapshot] of the node and a time go in, one [Plan]
// comes out. It reads no clock, does no I/O, keeps nothing and changes nothing it was
// given; the same input, in any order, gives the same plan. The caller owns all state and
// carries the steps out. It asks the runtime again before each step, and skips what
// depends on a step that failed ([Step.RestsOn]). [DecideLogs] does the same for logs.
//
// # Invariants
//
// Only what carries the kubelet's pod labels is ever touched ([Identify]), and never a
// running container. While the source of pods cannot be reached, no pod counts as gone.
// A time in the future counts as now, and so does an unknown one: doubt makes younger,
// never older.
//
// With StartGrace 0, AgeFrom creation, StaticPodsKnown, labels on everything, no time in
// the future and nothing that failed, the removals are exactly the kubelet's. "make e2e"
// compares them, and the calls that they take, with those of the kubelet's own package in
// 100,000 worlds.
//
// # Failure modes
//
// A policy that does not validate removes nothing. What makes no sense (an ID listed
// twice, a state that is none) stays, and keeps its sandbox. What has no ID cannot be
// named, and gets no decision. A container whose removal failed stays until RetryAt and
// still counts as removed: another one does not go in its place.
//
// # Sources
//
// The rules are those of the kubelet of Kubernetes 1.36, in k8s.io/kubernetes: the passes
// and sandboxes in pkg/kubelet/kuberuntime/kuberuntime_gc.go, the rights of pods in
// pkg/kubelet/pod_workers.go (ShouldPodContentBeRemoved, ShouldPodRuntimeBeRemoved), the
// defaults in cmd/kubelet/app/options/options.go, the UIDs of static pods in
// pkg/kubelet/config/common.go.
package container
