package container

import "time"

// Policy is the operator's configuration. The zero value keeps no dead container at all;
// [DefaultPolicy] returns the kubelet's defaults.
type Policy struct {
	MinAge             time.Duration // a dead container younger than this stays; 0 is off
	MaxPerPodContainer int           // dead containers kept for each container of a pod; below 0 is off
	MaxContainers      int           // dead containers kept on the whole node; below 0 is off
	AgeFrom            AgeFrom       // what MinAge and "oldest" count from

	// StartGrace is how long after its creation an item counts as being started: a created
	// container that does not run yet, a sandbox that is not ready yet, a pod that its source
	// has not listed yet. The kubelet starts these itself and needs no grace; 0 behaves like
	// the kubelet.
	StartGrace time.Duration
}

// AgeFrom selects the time from which the age of a dead container counts.
type AgeFrom uint8

// Values of AgeFrom.
const (
	// FromCreation is the kubelet's behaviour: a container that ran for a week is a week old
	// the moment it ends.
	FromCreation AgeFrom = iota
	// FromTermination counts from the end. A container in state created or unknown counts
	// from its creation.
	FromTermination
)

// Snapshot is the whole input of a decision. Decide does not change it or keep references to
// it.
//
// The caller must read Pods after Containers and Sandboxes. Then a pod that is missing from
// Pods is gone, and not one that was created in between.
type Snapshot struct {
	Policy     Policy
	Containers []Container // all that the CRI lists, in any state, with any labels
	Sandboxes  []Sandbox   // likewise

	// Pods are the pods bound to this node. They count only while PodsKnown: their source is
	// reachable and has listed all its pods.
	Pods      []Pod
	PodsKnown bool

	// StaticPodsKnown means that Pods has static pods under the UID that their containers
	// carry, including those without a mirror pod. The kubelet has this knowledge; the API
	// server does not. While it is false, a static pod is never treated as gone.
	StaticPodsKnown bool

	// ReclaimEnded also removes the dead containers and sandboxes of pods that ended and are
	// not deleted. The kubelet does this when its eviction manager needs the space.
	ReclaimEnded bool
}

// State is a container's state in the CRI. The zero value is invalid; Decide leaves such a
// container alone.
type State uint8

// The states of a container.
const (
	StateCreated State = iota + 1 // never ran
	StateRunning
	StateExited
	StateUnknown // the runtime lost track: it may be running
)

// PodID is a pod as the kubelet's labels name it. See [Identify].
type PodID struct {
	UID       string
	Namespace string
	Name      string
}

// Container is one container of the CRI.
type Container struct {
	ID        string
	SandboxID string
	Pod       PodID  // zero if the labels are not the kubelet's
	Name      string // the container's name in its pod, likewise
	Attempt   uint32 // how many times it was restarted; orders equal times

	State    State
	Created  time.Time
	Finished time.Time // when it exited; zero if unknown

	RetryAt time.Time // after a step that failed: left alone until then
}

// Status is the runtime's answer about one container.
type Status struct {
	State    State
	Finished time.Time // the zero time while it has not ended
	LogPath  string    // absolute, as the CRI's client chose it; "" if it has no log
}

// Sandbox is one pod sandbox of the CRI.
type Sandbox struct {
	ID       string
	Pod      PodID
	Attempt  uint32
	NotReady bool
	Static   bool // its annotations mark the pod as a static one
	Created  time.Time

	RetryAt time.Time // after a step that failed: left alone until then
}

// Pod is one pod bound to this node, named by the UID that its containers
// carry: for a mirror pod that is the hash in its annotations, not its own UID.
type Pod struct {
	UID string
	// Deleting: its deletion was requested. Until it has ended, it is treated like any other
	// pod.
	Deleting bool
	// Ended: none of its containers runs or will run again. The kubelet reports this as a
	// terminal phase, once the last container has stopped.
	Ended bool
	// Evicted: the kubelet ended it to protect the node.
	Evicted bool
}

// Reason is why a container or sandbox is kept or removed, as a stable word for
// metrics and logs. Detail explains it in words.
type Reason string

// Reasons to keep a container or sandbox. If several apply, the first in this list is given.
const (
	KeptBlocked       Reason = "blocked"        // an invalid policy, or an inconsistent item
	KeptForeign       Reason = "foreign"        // without the kubelet's pod labels
	KeptRunning       Reason = "running"        // a running container, a ready sandbox
	KeptHasContainers Reason = "has_containers" // a sandbox with a container that stays
	KeptStarting      Reason = "start_grace"    // younger than StartGrace, and not running yet
	KeptYoung         Reason = "min_age"        // a dead container younger than MinAge
	KeptFailed        Reason = "removal_failed" // RetryAt is in the future
	KeptWithinLimits  Reason = "within_limits"  // a dead container within the limits
	KeptNewest        Reason = "newest_sandbox" // the newest sandbox of a pod that exists, or may exist
)

// Reasons to remove a container or sandbox. If several apply, the first in this list is
// given.
const (
	RemovedPodGone    Reason = "pod_gone"              // no such pod
	RemovedPodEvicted Reason = "pod_evicted"           // Pod.Evicted
	RemovedPodDeleted Reason = "pod_deleted"           // Pod.Deleting and Pod.Ended
	RemovedPodEnded   Reason = "pod_ended"             // Pod.Ended and Snapshot.ReclaimEnded
	RemovedPerPod     Reason = "max_per_pod_container" // over MaxPerPodContainer
	RemovedTotal      Reason = "max_containers"        // over MaxContainers
	RemovedSuperseded Reason = "superseded_sandbox"    // an old sandbox of a pod that has a newer one
)

// Decision is why one container or sandbox is kept or, in a [Step], removed.
type Decision struct {
	ContainerID string // "" for a sandbox
	SandboxID   string
	Reason      Reason
	Detail      string // a sentence for people
}

// Action is the CRI call of a step.
type Action uint8

// The actions.
const (
	StopContainer Action = iota + 1
	RemoveContainer
	StopSandbox
	RemoveSandbox
)

// Removes reports whether the action removes its object, rather than only stops it.
func (a Action) Removes() bool { return a == RemoveContainer || a == RemoveSandbox }

func (a Action) String() string {
	switch a {
	case StopContainer:
		return "stop container"
	case RemoveContainer:
		return "remove container"
	case StopSandbox:
		return "stop sandbox"
	case RemoveSandbox:
		return "remove sandbox"
	}
	return "no action"
}

// Step is one thing to do, and why.
type Step struct {
	Action Action
	Decision
}

// RestsOn reports whether s must be skipped if the earlier step failed. A container that
// could not be stopped is not removed. A sandbox is removed only when all its containers are
// gone, because the CRI would kill the remaining ones.
func (s Step) RestsOn(earlier Step) bool {
	return s.SandboxID == earlier.SandboxID &&
		(s.ContainerID == "" || s.ContainerID == earlier.ContainerID)
}

// Plan is the result of Decide: the steps, why everything else is kept, and when to decide
// again.
type Plan struct {
	Steps []Step     // in this order; see [Step.RestsOn] for those that fail
	Keep  []Decision // everything else: containers by ID, then sandboxes by ID

	// Next is the earliest time at which the steps change by themselves
	// (something grows old enough); zero if only an event can change them.
	Next time.Time
}
