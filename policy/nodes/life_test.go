package nodes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// TestLifeWhileItGoes: whatever is heard of a Node between the inventory and its deletion
// keeps it, and so does a watch that is behind.
func TestLifeWhileItGoes(t *testing.T) {
	for what, happens := range map[string]func(*scene){
		"its Lease is renewed":  func(s *scene) { s.renew(s.now) },
		"it is ready":           func(s *scene) { n := s.dead; n.Ready, n.Since = true, s.now; s.observe("dead", n) },
		"a heartbeat":           func(s *scene) { n := s.dead; n.Heard = s.now; s.observe("dead", n) },
		"the mark is taken off": func(s *scene) { n := s.dead; n.Labels = nil; s.observe("dead", n) },
		"a volume is attached":  func(s *scene) { s.attach("dead") },
		"Leases cannot be read": func(s *scene) { s.c.Unreadable(s.now, leaseType) },
		"etcd is restored":      func(s *scene) { s.c.Restored(s.now) },
		"it is not to be":       func(s *scene) { s.c.Configure(s.now, nodes.Config{Inventory: true}) },
		"it has another name's UID": func(s *scene) {
			s.c.Observe(s.now, nodeType, gc.Object{Name: "dead", UID: "new", ResourceVersion: "1"}, s.dead)
		},
		"nobody looks for so long": func(s *scene) { s.now = s.now.Add(nodes.FreshFor + 1) },
		"its Lease is made anew": func(s *scene) {
			s.c.Observe(s.now, leaseType, gc.Object{Namespace: "kube-node-lease", Name: "dead", UID: "2", ResourceVersion: "2"}, leases.Lease{Expires: s.now})
		},
		"its Lease is not understood": func(s *scene) {
			s.c.Observe(s.now, leaseType, gc.Object{Namespace: "kube-node-lease", Name: "dead", UID: "lease", ResourceVersion: "no"}, nil)
		},
	} {
		for step := range 3 { // before the answer, before the read's answer, after it
			s := newScene(t, nil).known()
			a := s.ask(nodes.WatchFor, gc.Inventory)
			if step == 0 {
				happens(s)
			}
			s.c.Surveyed(s.now, a.ID, &s.list)
			if step > 0 {
				a = s.ask(0, gc.Verify)
				if step == 1 {
					happens(s)
				}
				s.c.Answered(s.now, s.now, a.ID, gc.Answer{State: gc.Exists, Object: gc.Object{UID: "lease", ResourceVersion: s.leaseRV}})
				if step == 2 {
					happens(s)
				}
			}
			for _, a := range s.c.Ready(s.now, 10) {
				if a.Verb == gc.Delete {
					t.Errorf("%s (%d): %+v", what, step, a)
				}
			}
		}
	}
	for what, answer := range map[string]gc.Answer{
		"it was renewed":  {State: gc.Exists, Object: gc.Object{UID: "lease", ResourceVersion: "later"}},
		"it is made anew": {State: gc.Exists, Object: gc.Object{UID: "another", ResourceVersion: "12"}},
		"it is gone":      {State: gc.Absent},
		"nobody knows":    {State: gc.Unknown},
		"too busy":        {State: gc.TooBusy},
	} {
		s := newScene(t, nil).known()
		s.cleared()
		a := s.ask(0, gc.Verify)
		s.c.Answered(s.now, s.now, a.ID, answer)
		if got := s.c.Ready(s.now, 10); len(got) > 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestShare: so many go within an hour, and no more; and one in the first hour of a leader, which does not
// know what the last one has deleted.
func TestShare(t *testing.T) {
	for share, want := range map[float64]int{0.01: 1, 0.15: 3, 0.29: 5} {
		s := newScene(t, func(c *nodes.Config) { c.MaxShare, c.MinShare = share, 0.1 })
		s.known()
		for i := range 9 { // with the first, 20 Nodes in all
			s.observe(fmt.Sprint("dead-", i), s.dead)
		}
		gone := 0
		for hour := range 4 {
			for end := s.now.Add(time.Hour - time.Second); s.now.Before(end); s.now = s.now.Add(time.Second) {
				for _, a := range s.c.Ready(s.now, 10) {
					switch a.Verb {
					case gc.Inventory:
						s.list.Time = s.now
						s.c.Surveyed(s.now, a.ID, &s.list)
					case gc.Verify:
						answer := gc.Answer{State: gc.Absent}
						if a.Object.Name == "dead" {
							answer = gc.Answer{State: gc.Exists, Object: gc.Object{UID: "lease", ResourceVersion: s.leaseRV}}
						}
						s.c.Answered(s.now, s.now, a.ID, answer)
					case gc.Delete:
						gone++
						s.c.Finished(s.now, a.ID, gc.Done)
						s.c.Forget(s.now, nodeType, gc.Object{UID: a.Object.UID})
					}
				}
			}
			if hour == 0 && gone != 1 || hour == 1 && (gone < want || gone > want+1) { // the first one does not count until the end
				t.Errorf("%v: %d went until the end of hour %d of a leader that may delete %d", share, gone, hour, want)
			}
		}
		if gone < min(2*want, 10) {
			t.Errorf("%v: %d went in four hours", share, gone)
		}
	}
}

// TestNamesAreKept: what is observed shares the memory of a batch, which is used again.
func TestNamesAreKept(t *testing.T) {
	s := newScene(t, nil)
	batch := []byte("dead|metal://rack/dead-id|gone=yes")
	part := strings.Split(unsafe.String(&batch[0], len(batch)), "|")
	o := s.object(part[0])
	s.c.Observe(s.now, nodeType, o, nodes.Node{Since: old, ProviderID: part[1], Labels: part[2:]})
	s.c.Observe(s.now, attachmentType, gc.Object{UID: "att", ResourceVersion: "1"}, nodes.Attachment{Node: part[0]})
	clear(batch)
	for _, t := range []gc.Type{nodeType, leaseType, attachmentType} {
		s.c.Synced(s.now, t)
	}
	if got := s.reason(); got != nodes.VolumesAttached {
		t.Errorf("%s", got)
	}
	s.c.Forget(s.now, attachmentType, gc.Object{UID: "att"})
	s.c.Configure(s.now, nodes.Config{Label: "gone", Inventory: true, NotReadyFor: time.Hour})
	if got := s.reason(); got != nodes.Watched {
		t.Errorf("%s", got)
	}
	if n := s.c.Counts(s.now); n[nodes.Watched] != 1 || len(n) != len(nodes.Stale) {
		t.Errorf("%v", n)
	}
}

// TestClockBehind: a kubelet whose clock is a month behind renews its Lease, or writes its
// status, with times of a month ago. While it does, its Node stays.
func TestClockBehind(t *testing.T) {
	for what, lives := range map[string]func(*scene){
		"its Lease":  func(s *scene) { s.renew(old.Add(s.now.Sub(noon))) },
		"its status": func(s *scene) { n := s.dead; n.Heard = old.Add(s.now.Sub(noon)); s.observe("dead", n) },
	} {
		s := newScene(t, nil).known()
		for range 100 {
			s.now = s.now.Add(5 * time.Minute)
			lives(s)
			if got := s.c.Ready(s.now, 10); len(got) > 0 || s.reason() != nodes.NotYet {
				t.Fatalf("%s: %+v, %s", what, got, s.reason())
			}
		}
		s.nothing(72*time.Hour, nodes.NotYet)
		s.ask(0, gc.Inventory)
	}
}
