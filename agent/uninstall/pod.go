package uninstall

import (
	"cmp"
	"fmt"
)

// pod has the fields of a Pod that are read here.
type pod struct {
	Metadata struct{ Name string }
	Spec     struct {
		NodeName string
		Affinity struct {
			NodeAffinity struct {
				Required struct {
					NodeSelectorTerms []struct {
						MatchFields []struct{ Values []string }
					}
				} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			}
		}
	}
	Status struct {
		StartTime             string
		Conditions            []struct{ Type, Status, Message string }
		InitContainerStatuses []struct {
			Name             string
			RestartCount     int
			State, LastState struct {
				Waiting    *struct{ Reason, Message string }
				Terminated *struct {
					Message, Reason string
					ExitCode        int
				}
			}
		}
	}
}

// node returns the node of the pod. Before the pod is bound, that is the node in its affinity.
func (p *pod) node() string {
	for _, term := range p.Spec.Affinity.NodeAffinity.Required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			return cmp.Or(append([]string{p.Spec.NodeName}, field.Values...)...)
		}
	}
	return p.Spec.NodeName
}

// status is the state of a node, as its pod shows it.
type status struct {
	pod           string
	taken         bool // by its kubelet
	clean, failed bool
	restarts      int
	says          string // why it has failed, or what it waits for
}

func (p *pod) status(container string) *status {
	s := &status{pod: p.Metadata.Name, taken: p.Status.StartTime != "", says: "it runs"}
	if !s.taken {
		s.says = "the kubelet there has not taken the pod: is the node down?"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			s.says = clean("not scheduled: " + c.Message)
		}
	}
	for _, c := range p.Status.InitContainerStatuses {
		if c.Name != container {
			continue
		}
		s.restarts = c.RestartCount
		if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			s.says = clean(w.Reason + " " + w.Message)
		}
		end := cmp.Or(c.State.Terminated, c.LastState.Terminated)
		s.clean = c.State.Terminated != nil && end.ExitCode == 0
		if s.failed = end != nil && end.ExitCode != 0; s.failed {
			s.says = clean(cmp.Or(end.Message, fmt.Sprintf("exit code %d, %s", end.ExitCode, end.Reason)))
		}
	}
	return s
}
