// Package container decides which dead containers and pod sandboxes of a node
// should be removed.
//
// [Decide] is a pure function: one [Snapshot] of the node and a time go in, one
// [Plan] comes out. It reads no clock, does no I/O, keeps nothing and changes
// nothing it was given; the same input, in any order, gives the same plan. The
// caller owns all state, and carries the steps out; it asks the runtime again
// before each, and skips what rests on a step that failed ([Step.RestsOn]).
//
// # Whose containers
//
// Only what carries the kubelet's pod labels is ever touched ([Identify]). The
// kubelet is less careful: it takes anything the CRI lists, so that a sandbox
// made by hand is of a pod without UID, which is gone. What belongs to nobody
// still counts as a container of its sandbox, which therefore stays. Labels can
// be forged by whoever may write to the runtime's socket; what that gains is
// that dead containers go earlier, never running ones.
//
// # Dead containers
//
// Dead is what does not run: exited, created and never started, or lost track
// of by the runtime. The last may be running after all, so that it is stopped
// first, in a step of its own. A dead container is ripe once it is MinAge old;
// one that is not is neither removed nor counted. Of those that are ripe go,
// the oldest first in each of these passes:
//
//  1. all of pods that have lost their rights (below);
//  2. of each unit (pod UID and container name) what is over MaxPerPodContainer;
//  3. if more than MaxContainers are left: of each unit what is over its equal
//     share of them, one at worst; and then the oldest anywhere.
//
// The equal share can take more than is needed: of six in units of five and
// one, with room for five, two are left in the first, where dropping one would
// do. That is how the kubelet does it, and a plan is to be the kubelet's.
//
// # Sandboxes
//
// A sandbox goes if it is not ready, no container of it is left after the plan,
// and its pod has lost its rights or has a newer sandbox, ready or not. Neither
// limit nor MinAge asks about sandboxes: MinAge protects what a dead container
// has to tell, and a sandbox has nothing. A sandbox of a pod with young
// containers stays for theirs.
//
// # Pods
//
// A pod has lost its rights when it
//
//   - is not among Snapshot.Pods: deleted, or never there (what others call
//     unidentified; nobody can tell the two apart);
//   - was evicted;
//   - is being deleted and has ended. One being deleted that still has something
//     to end is like any other: its last dead containers are what tells why it
//     took so long;
//   - has ended (a job that is done), if the space is needed: ReclaimEnded.
//     Otherwise an ended pod keeps what the limits leave it, for its logs.
//
// While the source of pods cannot be reached (PodsKnown is false) nothing of
// this is believed, also not what it said before: the limits alone decide, as
// they do where there is no such source at all. What it costs is that the last
// dead container and the last sandbox of each deleted pod stay. (The kubelet
// goes on to believe, for sandboxes only, what it heard of pods it knows.)
//
// Static pods come from files, and the API server knows them by mirror pods
// only, under another UID, some time later or not at all. A source must name
// them by the UID their containers carry; one that cannot be sure to know them
// all leaves StaticPodsKnown false, and what belongs to a static pod, or may
// because its sandbox is missing from the reading, is never taken for gone.
//
// # Logs
//
// [DecideLogs] does the same for the directories in which the kubelet keeps the
// logs of a pod, and for the links to them. A directory outlives everything else
// of its pod, so that it is judged last, and by its name alone.
//
// # Beside whoever starts pods
//
// The kubelet removes containers and starts them, and knows of a pod before
// anybody else does. Seen from outside, a container between its creation and
// its start is a dead one, and so is all of a pod that the source will name in
// a moment. StartGrace keeps such things while they are young: created
// containers and sandboxes not yet ready count from their own creation, a pod
// that nobody named from the creation of the oldest thing of it.
//
// With StartGrace 0, AgeFrom creation, StaticPodsKnown, labels on everything, no
// time in the future and nothing that failed, the removals are exactly the
// kubelet's: "make e2e" compares them, and the calls that they take, with those of
// the kubelet's own package in 100,000 worlds. Which of two of the same age is the
// older one it leaves to chance; here the number of restarts decides, then the ID.
// Logs of a pod that is gone it removes while containers of it are left; here they
// wait for those.
//
// # Clocks
//
// A time in the future counts as now, one that is not known too: doubt makes
// younger, never older. After a clock was set back, containers from before the
// change are not ripe until it has caught up, as with the kubelet; only with
// MinAge 0 they are, where the kubelet waits. An end that is not known
// (AgeFrom termination) is for the caller to find out, and keeps a container
// until it has. Order goes by the times as they are.
//
// # Failure modes
//
// A policy that does not validate removes nothing. What makes no sense (an ID
// listed twice, a state that is none) stays, and keeps its sandbox. What has no
// ID cannot be named, and gets no decision. A container whose removal failed
// stays until RetryAt and still counts as removed: another one does not go in
// its place.
//
// # Sources
//
// The rules are those of the kubelet of Kubernetes 1.36, in k8s.io/kubernetes:
// the passes and the sandboxes in pkg/kubelet/kuberuntime/kuberuntime_gc.go
// (evictContainers, evictSandboxes, enforceMaxContainersPerEvictUnit,
// removeOldestN), the rights of pods in pkg/kubelet/pod_workers.go
// (ShouldPodContentBeRemoved, ShouldPodRuntimeBeRemoved), the defaults in
// cmd/kubelet/app/options/options.go, the UIDs of static pods in
// pkg/kubelet/config/common.go.
package container
