package node

import (
	"cmp"
	"time"

	"github.com/ebb-agent/ebb/policy/container"
)

// ContainersExplanation answers why dead containers, sandboxes and logs stay
// or go.
type ContainersExplanation struct {
	Time       time.Time             `json:"time"`
	Mode       string                `json:"mode"`
	PodsSource string                `json:"podsSource"`
	PodsError  string                `json:"podsError,omitempty"` // why the pods are not known
	Containers []WorkloadExplanation `json:"containers"`
	Logs       []LogExplanation      `json:"logs"`
}

// WorkloadExplanation is one container or sandbox, as the last decision saw it.
type WorkloadExplanation struct {
	Container string     `json:"container,omitempty"` // its ID; none for a sandbox
	Sandbox   string     `json:"sandbox"`
	Pod       string     `json:"pod,omitempty"` // NAMESPACE/NAME
	Name      string     `json:"name,omitempty"`
	Created   *time.Time `json:"created,omitempty"`
	Verdict   string     `json:"verdict"` // "keep" or "remove"
	Reason    string     `json:"reason"`
	Detail    string     `json:"detail"`
}

// LogExplanation is one directory of logs.
type LogExplanation struct {
	Entry   string `json:"entry"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	Detail  string `json:"detail"`
}

func (a *Agent) explainContainers() ContainersExplanation {
	d := &a.dead
	e := ContainersExplanation{
		Time: a.clock.now(), Mode: string(a.cfg.Mode), PodsSource: a.cfg.Pods.Source,
		Containers: []WorkloadExplanation{}, Logs: []LogExplanation{},
	}
	if d.why != nil {
		e.PodsError = d.why.Error()
	}
	about := make(map[string]WorkloadExplanation)
	for _, c := range d.workloads.Containers {
		about[c.ID] = WorkloadExplanation{Pod: podText(c.Pod), Name: c.Name, Created: timeOrNil(c.Created)}
	}
	for _, s := range d.workloads.Sandboxes {
		about[s.ID] = WorkloadExplanation{Pod: podText(s.Pod), Created: timeOrNil(s.Created)}
	}
	add := func(verdict string, why container.Decision) {
		w := about[cmp.Or(why.ContainerID, why.SandboxID)]
		w.Container, w.Sandbox = why.ContainerID, why.SandboxID
		w.Verdict, w.Reason, w.Detail = verdict, string(why.Reason), why.Detail
		e.Containers = append(e.Containers, w)
	}
	for _, s := range d.plan.Steps {
		if s.Action.Removes() {
			add("remove", s.Decision)
		}
	}
	for _, k := range d.plan.Keep {
		add("keep", k)
	}
	for _, l := range d.logs.RemoveDirectories {
		e.Logs = append(e.Logs, LogExplanation{l.Entry, "remove", string(l.Reason), l.Detail})
	}
	for _, l := range d.logs.KeepDirectories {
		e.Logs = append(e.Logs, LogExplanation{l.Entry, "keep", string(l.Reason), l.Detail})
	}
	return e
}

func podText(p container.PodID) string {
	if p == (container.PodID{}) {
		return ""
	}
	return p.String()
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
