package orphans

import (
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/orphans"
)

// Report is the result of a scan. The names of its JSON fields are stable.
type Report struct {
	Format   int               `json:"format"` // 1
	Time     time.Time         `json:"time"`   // the API server's
	Complete bool              `json:"complete"`
	NotSeen  []preview.NotSeen `json:"notSeen,omitempty"`
	Objects  int               `json:"objects"` // how many were read
	Types    int               `json:"types"`   // how many were listed
	Findings []Finding         `json:"findings"`
}

// Finding is one problem.
type Finding struct {
	Reason string     `json:"reason"`
	Object Object     `json:"object"`
	By     string     `json:"by,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	Why    string     `json:"why"`
	// Command is for a POSIX shell; Arguments are the same for kubectl itself. Looks means that the
	// command changes nothing.
	Command   string   `json:"command,omitempty"`
	Arguments []string `json:"arguments,omitempty"`
	Looks     bool     `json:"looks,omitempty"`
}

// Object identifies the object of a finding.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"` // as kubectl takes it
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

func (c *cluster) report(now time.Time, findings []orphans.Finding) Report {
	r := Report{Format: 1, Time: now, Complete: len(c.lacks) == 0, Objects: c.look.Objects(), Types: c.listed, Findings: make([]Finding, 0, len(findings))}
	for name, why := range c.lacks {
		r.NotSeen = append(r.NotSeen, preview.NotSeen{Type: name, Why: why})
	}
	slices.SortFunc(r.NotSeen, func(a, b preview.NotSeen) int { return strings.Compare(a.Type, b.Type) })
	for _, f := range findings {
		resource, _, _ := strings.Cut(orphans.Target(f.Object), "/")
		x := Finding{Reason: string(f.Reason), By: f.By, Why: f.Why, Looks: f.Looks, Object: Object{APIVersion: f.Object.APIVersion,
			Kind: cascade.BaseKind(f.Object.Kind), Resource: resource, Namespace: f.Object.Namespace, Name: f.Object.Name, UID: f.Object.UID}}
		if !f.Since.IsZero() {
			since := f.Since.UTC()
			x.Since = &since
		}
		if len(f.Command) > 0 {
			x.Arguments = slices.Concat(c.options.Kubectl, f.Command)
			x.Command = Shell(append([]string{"kubectl"}, x.Arguments...))
		}
		r.Findings = append(r.Findings, x)
	}
	return r
}
