package nodes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/nodes"
)

var (
	noon           = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	nodeType       = gc.Type{APIVersion: "v1", Kind: "Node", Resource: "nodes"}
	leaseType      = gc.Type{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Resource: "leases", Namespaced: true}
	attachmentType = gc.Type{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Resource: "volumeattachments"}
	old            = noon.AddDate(0, -1, 0)
)

// scene is a cluster of ten Nodes that are ready, and one that is to go: dead.
type scene struct {
	t       *testing.T
	c       *nodes.Collector
	now     time.Time
	version int
	dead    nodes.Node
	lease   time.Time // of the dead one expired then
	list    nodes.Inventory
	leaseRV string
}

func newScene(t *testing.T, change func(*nodes.Config)) *scene {
	config := nodes.Config{Label: "gone", Inventory: true}
	if change != nil {
		change(&config)
	}
	s := &scene{t: t, c: nodes.New(config), now: noon, lease: old,
		dead: nodes.Node{Since: old, Created: old, Heard: old, ProviderID: "metal://rack/dead-id", Labels: []string{"a=b", "gone=yes"}}}
	s.list.Time = noon.Add(9 * time.Minute)
	for i := range 10 {
		s.list.Machines = append(s.list.Machines, nodes.Machine{Name: fmt.Sprintf("ready-%d", i)})
	}
	return s
}

func (s *scene) object(name string) gc.Object {
	s.version++
	return gc.Object{APIVersion: "v1", Kind: "Node", Name: name, UID: "uid-" + name, ResourceVersion: fmt.Sprint(s.version)}
}

func (s *scene) observe(name string, n nodes.Node) { s.c.Observe(s.now, nodeType, s.object(name), n) }

func (s *scene) renew(expires time.Time) {
	s.version++
	s.leaseRV = fmt.Sprint(s.version)
	s.c.Observe(s.now, leaseType, gc.Object{Namespace: "kube-node-lease", Name: "dead", UID: "lease", ResourceVersion: s.leaseRV}, leases.Lease{Expires: expires})
}

func (s *scene) attach(to string) {
	s.c.Observe(s.now, attachmentType, gc.Object{Name: "att", UID: "att", ResourceVersion: "1"}, nodes.Attachment{Node: to})
}

// known has all types listed.
func (s *scene) known() *scene {
	for i := range 10 {
		s.observe(fmt.Sprintf("ready-%d", i), nodes.Node{Ready: true, Since: old, Created: old})
	}
	s.observe("dead", s.dead)
	if !s.lease.IsZero() {
		s.renew(s.lease)
	}
	for _, t := range []gc.Type{nodeType, leaseType, attachmentType} {
		s.c.Synced(s.now, t)
	}
	return s
}

func (s *scene) reason() gc.Reason {
	f, _ := s.c.Explain(gc.Coordinates{UID: "uid-dead"})
	return f.Reason
}

// ask has the time pass, and wants just this verb.
func (s *scene) ask(after time.Duration, verb gc.Verb) gc.Action {
	s.t.Helper()
	s.now = s.now.Add(after)
	got := s.c.Ready(s.now, 10)
	if len(got) != 1 || got[0].Verb != verb {
		s.t.Fatalf("%v, not one to %s: %s", got, verb, s.reason())
	}
	return got[0]
}

// nothing is asked for within a time.
func (s *scene) nothing(within time.Duration, why gc.Reason) {
	s.t.Helper()
	for end := s.now.Add(within); s.now.Before(end); s.now = s.now.Add(time.Minute) {
		if got := s.c.Ready(s.now, 10); len(got) > 0 {
			s.t.Fatalf("%+v while it is %s", got, why)
		}
	}
	if got := s.reason(); got != why {
		s.t.Errorf("%s, not %s", got, why)
	}
}

// cleared answers with an inventory that lacks the machine.
func (s *scene) cleared() {
	s.t.Helper()
	a := s.ask(nodes.WatchFor, gc.Inventory)
	s.c.Surveyed(s.now, a.ID, &s.list)
}

// verify answers the read of the Lease.
func (s *scene) verify(uid, version string) {
	s.t.Helper()
	a := s.ask(0, gc.Verify)
	if o := a.Object; o.Kind != "Lease" || o.Namespace != "kube-node-lease" || o.Name != "dead" || o.Resource != "leases" {
		s.t.Errorf("%+v is read", o)
	}
	answer := gc.Answer{State: gc.Absent}
	if uid != "" {
		answer = gc.Answer{State: gc.Exists, Object: gc.Object{UID: uid, ResourceVersion: version}}
	}
	s.c.Answered(s.now, s.now, a.ID, answer)
}

// TestDeleted: a Node goes after the inventory, and after a read of its Lease.
func TestDeleted(t *testing.T) {
	s := newScene(t, nil).known()
	s.nothing(nodes.WatchFor-time.Second, nodes.Watched)
	if plan, n := s.c.Planned(noon.Add(time.Hour), 5); n != 1 || plan[0].Object.Name != "dead" || plan[0].Reason != nodes.Watched {
		t.Errorf("%d are planned: %+v", n, plan)
	}
	s.now = noon
	s.cleared()
	s.verify("lease", s.leaseRV)
	a := s.ask(0, gc.Delete)
	if f, _ := s.c.Explain(gc.Coordinates{UID: "uid-dead"}); !f.InFlight || !f.Due.Equal(noon.Add(nodes.WatchFor)) {
		t.Errorf("%+v", f)
	}
	if a.Object.Name != "dead" || a.Object.UID != "uid-dead" || a.ResourceVersion != "11" || a.Reason != nodes.NotInInventory || a.Policy != gc.Background || a.Collector != nodes.Name {
		t.Errorf("%+v", a)
	}
	s.c.Finished(s.now, a.ID, gc.Done)
	s.c.Forget(s.now, nodeType, gc.Object{UID: "uid-dead"})
	s.nothing(time.Hour, "")
}

// TestKept: what keeps a Node, whatever else is so.
func TestKept(t *testing.T) {
	lately := noon.Add(-time.Hour)
	for _, test := range []struct {
		why    gc.Reason
		before func(*scene)
		config func(*nodes.Config)
		after  func(*scene)
	}{
		{why: nodes.Ready, before: func(s *scene) { s.dead.Ready = true }},
		{why: nodes.NotYet, before: func(s *scene) { s.dead.Since = lately }},
		{why: nodes.NotYet, before: func(s *scene) { s.dead.Heard = lately }},
		{why: nodes.NotYet, before: func(s *scene) { s.lease = lately }},
		{why: nodes.NotYet, before: func(s *scene) { s.lease = noon.AddDate(9, 0, 0) }},
		{why: nodes.NotYet, after: func(s *scene) { s.renew(noon) }},
		{why: nodes.NotYet, config: func(c *nodes.Config) { c.NotReadyFor = 365 * 24 * time.Hour }},
		{why: nodes.TimeMissing, before: func(s *scene) { s.dead.Since = time.Time{} }},
		{why: nodes.NotMarked, before: func(s *scene) { s.dead.Labels = []string{"gone-for-lunch=yes", "a=gone"} }},
		{why: nodes.NotMarked, config: func(c *nodes.Config) { c.Label = "gone=no" }},
		{why: nodes.NotMarked, config: func(c *nodes.Config) { c.Label, c.Taint = "", "gone" }},
		{why: nodes.NotMarked, config: func(c *nodes.Config) { c.Label = "" }, before: func(s *scene) { s.dead.Labels = []string{"=", ""} }},
		{why: nodes.NoInventory, config: func(c *nodes.Config) { c.Inventory = false }},
		{why: nodes.VolumesAttached, before: func(s *scene) { s.dead.Volumes = true }},
		{why: nodes.VolumesAttached, after: func(s *scene) { s.attach("dead") }},
		{why: nodes.LeasesUnread, after: func(s *scene) { s.c.Unreadable(s.now, leaseType) }},
		{why: nodes.NotRead, after: func(s *scene) { s.c.Unreadable(s.now, nodeType) }},
		{why: nodes.AttachmentsUnread, after: func(s *scene) { s.c.Unreadable(s.now, attachmentType) }},
		{why: nodes.NotRead, after: func(s *scene) { s.c.Observe(s.now, nodeType, s.object("dead"), nil) }},
		{why: nodes.Terminating, after: func(s *scene) {
			o := s.object("dead")
			o.Terminating = true
			s.c.Observe(s.now, nodeType, o, s.dead)
		}},
		{why: "", after: func(s *scene) { s.c.Restored(s.now) }},
		{why: "", after: func(s *scene) {
			s.c.Observe(s.now, nodeType, gc.Object{Name: "dead", UID: "new", ResourceVersion: "99"}, nodes.Node{Ready: true})
		}},
	} {
		s := newScene(t, test.config)
		if test.before != nil {
			test.before(s)
		}
		s.known()
		if test.after != nil {
			test.after(s)
		}
		s.nothing(2*time.Hour, test.why)
	}
}

// TestMarks: a Node goes that has the label, or the taint, and one with volumes that is
// out of service.
func TestMarks(t *testing.T) {
	for _, test := range []struct {
		label, taint string
		change       func(*nodes.Node)
	}{
		{"gone=yes", "", func(*nodes.Node) {}},
		{"", "broken", func(n *nodes.Node) { n.Taints = []string{"broken="} }},
		{"never", "broken=disk", func(n *nodes.Node) { n.Taints = []string{"broken=disk"} }},
		{"gone", "", func(n *nodes.Node) { n.Volumes, n.OutOfService = true, true }},
	} {
		s := newScene(t, func(c *nodes.Config) { c.Label, c.Taint = test.label, test.taint })
		test.change(&s.dead)
		s.known()
		if s.dead.OutOfService {
			s.attach("dead")
		}
		s.cleared()
		s.verify("lease", s.leaseRV)
		s.ask(0, gc.Delete)
	}
}
