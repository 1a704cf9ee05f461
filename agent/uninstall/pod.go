package uninstall

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// nodeOf returns the node of a pod. Before the pod is bound, that is the node in its affinity.
func nodeOf(p *corev1.Pod) string {
	return cmp.Or(append([]string{p.Spec.NodeName}, nodesOf(&p.Spec)...)...)
}

// nodesOf returns the nodes that a pod's affinity names.
func nodesOf(s *corev1.PodSpec) (names []string) {
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil || s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	for _, term := range s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			names = append(names, field.Values...)
		}
	}
	return names
}

// status is the state of a node, as its pod shows it.
type status struct {
	pod           string
	taken         bool // by its kubelet
	clean, failed bool
	restarts      int32
	message       string // why it has failed, or what it waits for
}

func statusOf(p *corev1.Pod, container string) *status {
	s := &status{pod: p.Name, taken: p.Status.StartTime != nil, message: "it runs"}
	if !s.taken {
		s.message = "the kubelet there has not started the pod: is the node down?"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			s.message = clean("not scheduled: " + c.Message)
		}
	}
	for _, c := range p.Status.InitContainerStatuses {
		if c.Name != container {
			continue
		}
		s.restarts = c.RestartCount
		if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			s.message = clean(w.Reason + " " + w.Message)
		}
		end := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		s.clean = c.State.Terminated != nil && end.ExitCode == 0
		if s.failed = end != nil && end.ExitCode != 0; s.failed {
			s.message = clean(cmp.Or(end.Message, fmt.Sprintf("exit code %d, %s", end.ExitCode, end.Reason)))
		}
	}
	return s
}
