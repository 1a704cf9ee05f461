package workloads

import (
	"cmp"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/policy/container"
)

// Explanation answers why dead containers, sandboxes and logs stay or go.
type Explanation struct {
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

// Explain answers why dead containers, sandboxes and logs stay or go.
func (w *Workloads) Explain() Explanation {
	s, p := &w.seen, &w.plan
	e := Explanation{
		Time: w.Now(), Mode: string(w.Config.Mode), PodsSource: w.Config.Pods.Source,
		Containers: []WorkloadExplanation{}, Logs: []LogExplanation{},
	}
	if s.podsUnknown != nil {
		e.PodsError = s.podsUnknown.Error()
	}
	about := make(map[string]WorkloadExplanation)
	for _, c := range s.Containers {
		about[c.ID] = WorkloadExplanation{Pod: podText(c.Pod), Name: c.Name, Created: clock.OrNil(c.Created)}
	}
	for _, b := range s.Sandboxes {
		about[b.ID] = WorkloadExplanation{Pod: podText(b.Pod), Created: clock.OrNil(b.Created)}
	}
	add := func(verdict string, why container.Decision) {
		one := about[cmp.Or(why.ContainerID, why.SandboxID)]
		one.Container, one.Sandbox = why.ContainerID, why.SandboxID
		one.Verdict, one.Reason, one.Detail = verdict, string(why.Reason), why.Detail
		e.Containers = append(e.Containers, one)
	}
	for _, step := range p.Steps {
		if step.Action.Removes() {
			add("remove", step.Decision)
		}
	}
	for _, k := range p.Keep {
		add("keep", k)
	}
	for _, l := range p.logs.RemoveDirectories {
		e.Logs = append(e.Logs, LogExplanation{l.Entry, "remove", string(l.Reason), l.Detail})
	}
	for _, l := range p.logs.KeepDirectories {
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
