package main

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"
)

// description is a world in a line of input. Ages count back from the moment it is
// loaded, because the collector reads the clock.
type description struct {
	MinAge             time.Duration `json:"minAge"`
	MaxPerPodContainer int           `json:"maxPerPodContainer"`
	MaxContainers      int           `json:"maxContainers"`

	SourcesReady    bool `json:"sourcesReady"`    // the pod workers have seen all sources
	EvictNonDeleted bool `json:"evictNonDeleted"` // as the eviction manager requests

	Containers []struct {
		ID      string                    `json:"id"`
		Sandbox string                    `json:"sandbox"`
		UID     string                    `json:"uid"`
		Name    string                    `json:"name"`
		Attempt uint32                    `json:"attempt"`
		State   runtimeapi.ContainerState `json:"state"`
		Age     time.Duration             `json:"age"`
	} `json:"containers"`
	Sandboxes []struct {
		ID      string        `json:"id"`
		UID     string        `json:"uid"`
		Attempt uint32        `json:"attempt"`
		Ready   bool          `json:"ready"`
		Age     time.Duration `json:"age"`
	} `json:"sandboxes"`
	Pods []podState `json:"pods"`

	LogDirectories []string `json:"logDirectories"`
}

// podState is what the pod workers know about a pod.
type podState struct {
	UID        types.UID `json:"uid"`
	Deleted    bool      `json:"deleted"`
	Terminated bool      `json:"terminated"`
	Evicted    bool      `json:"evicted"`
}

// answer lists the collector's actions, one list per round: "stop container c1",
// "remove sandbox s1", "remove logs default_p_uid".
type answer struct {
	Rounds [][]string `json:"rounds"`
}

// world is the state that the collector sees and changes.
type world struct {
	containers []*runtimeapi.Container
	sandboxes  []*runtimeapi.PodSandbox
	logs       []string
	pods       map[types.UID]podState
	synced     bool

	calls []string // in this round
}

func (w *world) load(d description, now time.Time) {
	w.pods, w.synced = make(map[types.UID]podState, len(d.Pods)), d.SourcesReady
	for _, p := range d.Pods {
		if w.synced { // before that, the workers know no pod
			w.pods[p.UID] = p
		}
	}
	w.containers, w.sandboxes, w.logs = nil, nil, d.LogDirectories
	for _, c := range d.Containers {
		w.containers = append(w.containers, &runtimeapi.Container{
			Id: c.ID, PodSandboxId: c.Sandbox, State: c.State, CreatedAt: now.Add(-c.Age).UnixNano(),
			Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: c.Attempt},
			Labels:   labels(c.UID, map[string]string{kubelettypes.KubernetesContainerNameLabel: c.Name}),
		})
	}
	for _, s := range d.Sandboxes {
		state := runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		if s.Ready {
			state = runtimeapi.PodSandboxState_SANDBOX_READY
		}
		w.sandboxes = append(w.sandboxes, &runtimeapi.PodSandbox{
			Id: s.ID, State: state, CreatedAt: now.Add(-s.Age).UnixNano(),
			Metadata: &runtimeapi.PodSandboxMetadata{Name: s.UID, Namespace: "default", Uid: s.UID, Attempt: s.Attempt},
			Labels:   labels(s.UID, nil),
		})
	}
}

// labels returns the labels that the kubelet sets; none for objects that are not the
// kubelet's.
func labels(uid string, more map[string]string) map[string]string {
	if uid == "" {
		return nil
	}
	all := map[string]string{
		kubelettypes.KubernetesPodUIDLabel: uid, kubelettypes.KubernetesPodNameLabel: uid,
		kubelettypes.KubernetesPodNamespaceLabel: "default",
	}
	for k, v := range more {
		all[k] = v
	}
	return all
}

// The rules of the pod workers (pkg/kubelet/pod_workers.go). The real ones cannot be
// created outside of their package, and would need a whole kubelet.

// ShouldPodContentBeRemoved answers for the pod workers.
func (w *world) ShouldPodContentBeRemoved(uid types.UID) bool {
	if p, ok := w.pods[uid]; ok {
		return p.Evicted || p.Deleted && p.Terminated
	}
	return w.synced
}

// ShouldPodRuntimeBeRemoved answers for the pod workers.
func (w *world) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	if p, ok := w.pods[uid]; ok {
		return p.Terminated
	}
	return w.synced
}

// IsPodTerminationRequested is not asked by the collector.
func (w *world) IsPodTerminationRequested(types.UID) bool { panic("not asked by the collector") }
