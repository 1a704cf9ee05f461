package config

import (
	"encoding/json"
	"fmt"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/ebb-agent/ebb/policy/csrs"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/jobs"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/policy/pods"
	"github.com/ebb-agent/ebb/policy/volumes"
)

// Off is the mode of a collector that does not even watch. A collector's other modes are those of
// the controller. The stricter of the two applies.
const Off Mode = "off"

// UnmarshalJSON accepts a string, or the boolean that YAML makes of a bare off.
func (m *Mode) UnmarshalJSON(data []byte) error {
	if string(data) == "false" {
		*m = Off
		return nil
	}
	return json.Unmarshal(data, (*string)(m))
}

// Collectors configures each collector.
type Collectors struct {
	Owners  Owners  `json:"owners"`
	Pods    Pods    `json:"pods"`
	Jobs    Jobs    `json:"jobs"`
	CSRs    CSRs    `json:"csrs"`
	Leases  Leases  `json:"leases"`
	Nodes   Nodes   `json:"nodes"`
	Volumes Volumes `json:"volumes"`
}

// mode returns a pointer to the mode of a collector; nil for an unknown one.
func (c *Collectors) mode(name gc.Collector) *Mode {
	switch name {
	case "", gc.Owners:
		return &c.Owners.Mode
	case pods.Name:
		return &c.Pods.Mode
	case jobs.Name:
		return &c.Jobs.Mode
	case csrs.Name:
		return &c.CSRs.Mode
	case leases.Name:
		return &c.Leases.Mode
	case nodes.Name:
		return &c.Nodes.Mode
	case volumes.Name:
		return &c.Volumes.Mode
	}
	return nil
}

// Mode returns the mode of a collector; Off for an unknown one.
func (c Collectors) Mode(name gc.Collector) Mode {
	if m := c.mode(name); m != nil {
		return *m
	}
	return Off
}

// SetMode sets the mode of a collector. It panics for an unknown one.
func (c *Collectors) SetMode(name gc.Collector, m Mode) { *c.mode(name) = m }

// ModeOf returns the mode that applies to a collector: the stricter of its own and the
// controller's.
func (c Config) ModeOf(name gc.Collector) Mode {
	if own := c.Collectors.Mode(name); own != Enforce {
		return own
	}
	return c.Mode
}

// Owners configures the cascade, which collects objects whose owners are gone. A change to or from
// Off needs a restart.
type Owners struct {
	Mode Mode `json:"mode"`
}

// Pods configures which Pods are collected; see [pods.Config].
type Pods struct {
	Mode       Mode      `json:"mode"`
	Namespaces []string  `json:"namespaces"`
	Keep       int       `json:"keep"`
	Succeeded  PodLimits `json:"succeeded"`
	Failed     PodLimits `json:"failed"`
	Quarantine Duration  `json:"quarantine"`
	MaxShare   float64   `json:"maxShare"`
}

// PodLimits bound the Pods that ended in one phase; 0: no such limit.
type PodLimits struct {
	PerNamespace int      `json:"perNamespace"`
	PerOwner     int      `json:"perOwner"`
	After        Duration `json:"after"`
}

// PodPolicy returns the configuration of the rules for Pods. They count no Pods in excluded
// namespaces: these Pods stay, and would make their Nodes count as lost forever.
func (c Config) PodPolicy() pods.Config {
	p := c.Collectors.Pods.Policy()
	p.Excluded = c.Exclude.Namespaces
	return p
}

// Policy returns the configuration of the rules, without the excluded namespaces.
func (p Pods) Policy() pods.Config {
	limits := func(l PodLimits) pods.Limits {
		return pods.Limits{PerNamespace: l.PerNamespace, PerOwner: l.PerOwner, After: time.Duration(l.After)}
	}
	return pods.Config{Namespaces: p.Namespaces, Keep: p.Keep, Succeeded: limits(p.Succeeded), Failed: limits(p.Failed),
		Quarantine: time.Duration(p.Quarantine), MaxShare: p.MaxShare}
}

// Jobs configures which Jobs are collected; see [jobs.Config].
type Jobs struct {
	Mode       Mode         `json:"mode"`
	Namespaces []string     `json:"namespaces"`
	Defaults   []JobDefault `json:"defaults"`
}

// JobDefault is a TTL for Jobs that have neither a TTL nor an owner. It applies in the namespaces
// that Namespaces names and whose labels NamespaceSelector matches.
type JobDefault struct {
	Namespaces        []string `json:"namespaces"`
	NamespaceSelector string   `json:"namespaceSelector"` // in kubectl's syntax; empty: all
	After             Duration `json:"after"`
}

// selects returns the function that matches a namespace's labels; nil: all match. If the selector
// cannot be parsed, none match.
func (d JobDefault) selects() func(map[string]string) bool {
	if d.NamespaceSelector == "" {
		return nil
	}
	selector, err := labels.Parse(d.NamespaceSelector)
	return func(of map[string]string) bool { return err == nil && selector.Matches(labels.Set(of)) }
}

// Policy returns the configuration of the rules.
func (j Jobs) Policy() jobs.Config {
	c := jobs.Config{Namespaces: j.Namespaces}
	for _, d := range j.Defaults {
		c.Defaults = append(c.Defaults, jobs.Default{Namespaces: d.Namespaces, Selects: d.selects(), After: time.Duration(d.After)})
	}
	return c
}

// CSRs configures how long requests for certificates are kept; see [csrs.Config].
type CSRs struct {
	Mode        Mode     `json:"mode"`
	Pending     Duration `json:"pending"`
	Unissued    Duration `json:"unissued"`
	Issued      Duration `json:"issued"`
	Refused     Duration `json:"refused"`
	PodRequests Duration `json:"podRequests"`
	Signers     []Signer `json:"signers"`
}

// Signer configures how long requests to some signers are kept; 0: as for all others.
type Signer struct {
	Name     string   `json:"name"`
	Pending  Duration `json:"pending"`
	Unissued Duration `json:"unissued"`
	Issued   Duration `json:"issued"`
	Refused  Duration `json:"refused"`
}

// Policy returns the configuration of the rules.
func (c CSRs) Policy() csrs.Config {
	patience := func(pending, unissued, issued, refused Duration) csrs.Patience {
		return csrs.Patience{Pending: time.Duration(pending), Unissued: time.Duration(unissued), Issued: time.Duration(issued), Refused: time.Duration(refused)}
	}
	out := csrs.Config{Patience: patience(c.Pending, c.Unissued, c.Issued, c.Refused), PodRequests: time.Duration(c.PodRequests)}
	for _, s := range c.Signers {
		out.Signers = append(out.Signers, csrs.Signer{Name: s.Name, Patience: patience(s.Pending, s.Unissued, s.Issued, s.Refused)})
	}
	return out
}

// Leases configures which Leases are collected; see [leases.Config].
type Leases struct {
	Mode       Mode       `json:"mode"`
	Quarantine Duration   `json:"quarantine"`
	Elections  []Election `json:"elections"`
}

// Election names Leases that are reported, or deleted, once they have been expired for After.
type Election struct {
	Namespaces []string `json:"namespaces"`
	Names      []string `json:"names"`
	After      Duration `json:"after"`
	Delete     bool     `json:"delete"`
}

// Policy returns the configuration of the rules. own is ebb's Lease.
func (l Leases) Policy(own LeaderElection) leases.Config {
	c := leases.Config{Quarantine: time.Duration(l.Quarantine), Own: []string{own.Namespace + "/" + own.Name}}
	for _, e := range l.Elections {
		c.Elections = append(c.Elections, leases.Election{Namespaces: e.Namespaces, Names: e.Names, After: time.Duration(e.After), Delete: e.Delete})
	}
	return c
}

func defaultCollectors() Collectors {
	day, hour := Duration(24*time.Hour), Duration(time.Hour)
	return Collectors{
		Owners:  Owners{Mode: Enforce},
		Pods:    Pods{Mode: Observe, Namespaces: []string{}, Keep: 12500, Quarantine: Duration(40 * time.Second), MaxShare: nodes.DefaultLostShare},
		Jobs:    Jobs{Mode: Observe, Namespaces: []string{}, Defaults: []JobDefault{}},
		CSRs:    CSRs{Mode: Observe, Pending: day, Unissued: day, Issued: hour, Refused: hour, PodRequests: Duration(15 * time.Minute), Signers: []Signer{}},
		Leases:  Leases{Mode: Observe, Quarantine: hour, Elections: []Election{}},
		Nodes:   defaultNodes(),
		Volumes: defaultVolumes(),
	}
}

// maxDuration is the longest time that may be configured. Longer ones are mistakes: to keep objects
// forever, turn the collector off.
const maxDuration = 10 * 365 * 24 * time.Hour

func (c *Collectors) problems(fail func(field, format string, args ...any)) {
	between := func(field string, d Duration, least time.Duration) {
		if time.Duration(d) < least || time.Duration(d) > maxDuration {
			fail(field, "%s is not between %s and %s", d, Duration(least), Duration(maxDuration))
		}
	}
	for field, m := range map[string]Mode{"owners": c.Owners.Mode, "pods": c.Pods.Mode, "jobs": c.Jobs.Mode, "csrs": c.CSRs.Mode, "leases": c.Leases.Mode, "nodes": c.Nodes.Mode, "volumes": c.Volumes.Mode} {
		if m != Off && m != Observe && m != Enforce {
			fail("collectors."+field+".mode", "%q is not one of %q", m, []Mode{Off, Observe, Enforce})
		}
	}
	for field, m := range map[string]Mode{"nodes": c.Nodes.Mode, "volumes": c.Volumes.Mode} {
		if c.Owners.Mode == Off && m == Enforce {
			fail("collectors."+field+".mode", "%q needs collectors.owners.mode observe or enforce: without owners a restore of etcd may go unnoticed", m)
		}
	}
	patterns := func(field string, list ...string) {
		for n, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				fail(fmt.Sprintf("%s[%d]", field, n), "%q is not a pattern: * and ? stand for what may be there, [a-c] for one of these", pattern)
			}
		}
	}
	patterns("collectors.pods.namespaces", c.Pods.Namespaces...)
	patterns("collectors.jobs.namespaces", c.Jobs.Namespaces...)
	c.Pods.problems(fail, between)
	c.Nodes.problems(fail, between)
	between("collectors.leases.quarantine", c.Leases.Quarantine, time.Second)
	for n, e := range c.Leases.Elections {
		at := fmt.Sprintf("collectors.leases.elections[%d]", n)
		patterns(at+".names", e.Names...)
		patterns(at+".namespaces", e.Namespaces...)
		if len(e.Names) == 0 {
			fail(at+".names", "names no Lease; * is all")
		}
		between(at+".after", e.After, time.Minute)
	}
	c.Volumes.problems(fail)
	for n, d := range c.Jobs.Defaults {
		at := fmt.Sprintf("collectors.jobs.defaults[%d]", n)
		between(at+".after", d.After, time.Second)
		patterns(at+".namespaces", d.Namespaces...)
		if len(d.Namespaces) == 0 && d.NamespaceSelector == "" {
			fail(at+".namespaces", "names no namespace; * is all")
		}
		if _, err := labels.Parse(d.NamespaceSelector); err != nil {
			fail(at+".namespaceSelector", "%v; want for instance team=build,stage!=prod", err)
		}
	}
	c.CSRs.problems(between, patterns)
}

func (p *Pods) problems(fail func(field, format string, args ...any), between func(field string, d Duration, least time.Duration)) {
	if p.Keep < -1 || p.Keep == 0 {
		fail("collectors.pods.keep", "%d is neither a number above 0 nor -1, which keeps all", p.Keep)
	}
	if !(p.MaxShare > 0 && p.MaxShare <= 1) {
		fail("collectors.pods.maxShare", "%v is not above 0 and at most 1", p.MaxShare)
	}
	between("collectors.pods.quarantine", p.Quarantine, time.Second)
	for name, l := range map[string]PodLimits{"succeeded": p.Succeeded, "failed": p.Failed} {
		at := "collectors.pods." + name
		if l.PerNamespace < 0 {
			fail(at+".perNamespace", "%d is negative; 0 is no limit", l.PerNamespace)
		}
		if l.PerOwner < 0 {
			fail(at+".perOwner", "%d is negative; 0 is no limit", l.PerOwner)
		}
		between(at+".after", l.After, 0)
	}
}

func (c *CSRs) problems(between func(field string, d Duration, least time.Duration), patterns func(field string, list ...string)) {
	for field, d := range map[string]Duration{"pending": c.Pending, "unissued": c.Unissued, "issued": c.Issued, "refused": c.Refused,
		"podRequests": c.PodRequests} {
		between("collectors.csrs."+field, d, time.Minute)
	}
	for n, s := range c.Signers {
		at := fmt.Sprintf("collectors.csrs.signers[%d]", n)
		patterns(at+".name", s.Name)
		for field, d := range map[string]Duration{"pending": s.Pending, "unissued": s.Unissued, "issued": s.Issued, "refused": s.Refused} {
			if d != 0 { // as for all others
				between(at+"."+field, d, time.Minute)
			}
		}
	}
}
