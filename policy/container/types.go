package container

import "time"

// Policy is what the operator asked for. Mind that the zero value keeps no dead
// container at all; [DefaultPolicy] is the kubelet's.
type Policy struct {
	MinAge             time.Duration // a dead container younger than this stays; 0 is off
	MaxPerPodContainer int           // dead containers kept for each container of a pod; below 0 is off
	MaxContainers      int           // dead containers kept on the whole node; below 0 is off
	AgeFrom            AgeFrom       // what MinAge and "oldest" count from

	// StartGrace is how long after its creation something is taken for being
	// started: a created container that does not run yet, a sandbox that is not
	// ready yet, a pod that its source has not named yet. The kubelet does the
	// starting and needs none; 0 is the kubelet's.
	StartGrace time.Duration
}

// AgeFrom says where the age of a dead container begins.
type AgeFrom uint8

// The beginnings of age.
const (
	// FromCreation is the kubelet's: a container that ran for a week is a week
	// old the moment it ends.
	FromCreation AgeFrom = iota
	// FromTermination counts from the end. What has not ended as far as anybody
	// knows (created, unknown) counts from its creation.
	FromTermination
)

// Snapshot is everything a decision rests on. Decide reads it and keeps
// nothing.
//
// Pods must have been read after Containers and Sandboxes: then a pod that is
// not among them is gone, and not one that came in between.
type Snapshot struct {
	Policy     Policy
	Containers []Container // all that the CRI lists, in any state, the kubelet's or not
	Sandboxes  []Sandbox   // likewise

	// Pods are the pods bound to this node. They count only while PodsKnown:
	// their source is reached, and has named all its pods.
	Pods      []Pod
	PodsKnown bool

	// StaticPodsKnown says that Pods names static pods by the UID that their
	// containers carry, also those without a mirror pod. The kubelet can tell;
	// the API server cannot. Without it a static pod is never taken for gone.
	StaticPodsKnown bool

	// ReclaimEnded asks for the dead containers and sandboxes of pods that ended
	// and are not deleted, too. The kubelet does this when its eviction manager
	// needs the space.
	ReclaimEnded bool
}

// State is a container's state as the CRI has it. The zero value is not a
// state: a container that has it is left alone.
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
	Pod       PodID  // the zero value where the labels are not the kubelet's
	Name      string // the container's name in its pod, likewise
	Attempt   uint32 // how many times it was restarted; decides between equal times

	State    State
	Created  time.Time
	Finished time.Time // when it exited; zero where not known

	RetryAt time.Time // after a step that failed: left alone until then
}

// Status is what the runtime says of one container that it is asked for.
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
	Static   bool // its annotations say that the pod is a static one
	Created  time.Time

	RetryAt time.Time // after a step that failed: left alone until then
}

// Pod is one pod bound to this node, named by the UID that its containers
// carry: for a mirror pod that is the hash in its annotations, not its own UID.
type Pod struct {
	UID string
	// Deleting: its deletion was asked for. It still has all its rights until it
	// has ended.
	Deleting bool
	// Ended: nothing of it runs, and nothing will again. The kubelet says so
	// with a terminal phase, once the last container has stopped.
	Ended bool
	// Evicted: the kubelet ended it to protect the node.
	Evicted bool
}

// Reason is why a container or sandbox is kept or removed, as a stable word for
// metrics and logs. Detail says the rest in words.
type Reason string

// Why something stays. Where several hold, the first of this list is given.
const (
	KeptBlocked       Reason = "blocked"        // a policy that makes no sense, or an item that does not
	KeptForeign       Reason = "foreign"        // without the kubelet's pod labels
	KeptRunning       Reason = "running"        // a running container, a ready sandbox
	KeptHasContainers Reason = "has_containers" // a sandbox some container of which stays
	KeptStarting      Reason = "start_grace"    // younger than StartGrace, and not running yet
	KeptYoung         Reason = "min_age"        // a dead container younger than MinAge
	KeptFailed        Reason = "removal_failed" // RetryAt is still to come
	KeptWithinLimits  Reason = "within_limits"  // a dead container that the limits leave room for
	KeptNewest        Reason = "newest_sandbox" // the newest sandbox of a pod that is there
)

// Why something goes. Where several hold, the first of this list is given.
const (
	RemovedPodGone    Reason = "pod_gone"              // no such pod
	RemovedPodEvicted Reason = "pod_evicted"           // Pod.Evicted
	RemovedPodDeleted Reason = "pod_deleted"           // Pod.Deleting and Pod.Ended
	RemovedPodEnded   Reason = "pod_ended"             // Pod.Ended and Snapshot.ReclaimEnded
	RemovedPerPod     Reason = "max_per_pod_container" // over MaxPerPodContainer
	RemovedTotal      Reason = "max_containers"        // over MaxContainers
	RemovedSuperseded Reason = "superseded_sandbox"    // an old sandbox of a pod that has a newer one
)

// Decision is why one container or sandbox stays.
type Decision struct {
	ContainerID string // "" for a sandbox
	SandboxID   string
	Reason      Reason
	Detail      string // a sentence for people
}

// Action is what a step does, by one call of the CRI.
type Action uint8

// The actions.
const (
	StopContainer Action = iota + 1
	RemoveContainer
	StopSandbox
	RemoveSandbox
)

// Removes says that something is gone after it, and not merely stopped.
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

// RestsOn says that s must not be done if the earlier step was not: a container
// that could not be stopped is not removed, and a sandbox goes only when all
// its containers are gone, because the CRI would kill those that are left.
func (s Step) RestsOn(earlier Step) bool {
	return s.SandboxID == earlier.SandboxID &&
		(s.ContainerID == "" || s.ContainerID == earlier.ContainerID)
}

// Plan is what Decide wants done, and when it wants to be asked again.
type Plan struct {
	Steps []Step     // in this order; see [Step.RestsOn] for those that fail
	Keep  []Decision // all others: containers by ID, then sandboxes by ID

	// Next is the earliest time at which the steps change by themselves
	// (something grows old enough); zero if only an event can change them.
	Next time.Time
}
