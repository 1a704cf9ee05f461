package volumes_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/gc/gctest"
	"github.com/ebb-agent/ebb/policy/volumes"
)

const one, two, old = "one.example.com", "two.example.com", "old.example.com"

// storage judges volumes by all that was observed.
type storage struct {
	*gctest.World
	t        *rapid.T
	c        *spy
	released time.Duration
	serve    []string

	claims, attachments, csiNodes, drivers, classes *beside
}

func among[T any](t *rapid.T, of ...T) T { return of[pick(t, len(of))] }

// make a volume, most of which are near to going.
func (s *storage) make(o *gctest.Object, now time.Time) {
	t := s.t
	v := volumes.Volume{
		Phase:         mostly(t, "Released", "Failed", "Bound"),
		Policy:        mostly(t, "Delete", "Retain"),
		Driver:        mostly(t, among(t, one, two), old, ""),
		Handle:        mostly(t, o.UID, "h-1", "h-2", ""),
		ProvisionedBy: old,
	}
	v.ProvisionedBy = mostly(t, v.Driver, one, two, old, "")
	if v.Driver == "" {
		v.Handle, v.Other = "", "somewhere"
	}
	v.MigratedTo = mostly(t, "", one, old)
	if pick(t, 16) > 0 {
		v.Since = now.Truncate(time.Second).Add(-time.Duration(pick(t, 40)-4) * time.Hour)
	}
	v.Claim.Namespace, v.Claim.Name = "ns", mostly(t, "o-7", "o-0", "o-1", "o-2", "")
	v.Claim.UID = mostly(t, "x", "PersistentVolumeClaim-1", "PersistentVolumeClaim-2", "")
	if pick(t, 8) == 0 {
		v.Secret.Name, v.Secret.Namespace = "s", mostly(t, "n", "")
	}
	o.Terminating = o.Terminating || pick(t, 16) == 0
	o.Finalizers = mostly(t, []string{volumes.Finalizer}, nil, []string{"kubernetes.io/pv-protection"}, []string{"kubernetes.io/pv-protection", volumes.Finalizer},
		[]string{volumes.Finalizer, "external-attacher/one-example-com"})
	if o.Fields = v; pick(t, 256) == 0 {
		o.Fields = nil
	}
}

// mostly the first.
func mostly[T any](t *rapid.T, usual T, others ...T) T {
	if pick(t, 8) > 0 {
		return usual
	}
	return among(t, others...)
}

// blind reports whether anything that bears on volumes could not be read.
func (s *storage) blind() bool {
	for _, all := range []map[string]thing{s.c.observed, s.claims.observed, s.attachments.observed} {
		for _, o := range all {
			if o.fields == nil {
				return true
			}
		}
	}
	return false
}

func (s *storage) serves(driver string) bool { return slices.Contains(s.serve, driver) }

func (s *storage) hasDriver(name string) bool {
	for _, n := range s.csiNodes.observed {
		if slices.Contains(n.fields.(volumes.Drivers), name) {
			return true
		}
	}
	return s.drivers.named(name)
}

func (s *storage) hasClass(name string) bool {
	for _, c := range s.classes.observed {
		if c.fields == volumes.Class(name) {
			return true
		}
	}
	return false
}

func (s *storage) judge(o gctest.Object, _ time.Time, _ bool) (gc.Reason, time.Time) {
	never := time.Time{}
	v, read := o.Fields.(volumes.Volume)
	maker := v.ProvisionedBy
	if v.MigratedTo != "" {
		maker = v.MigratedTo
	}
	switch {
	case !read || !s.c.known:
		return "type_not_read", never
	case o.Terminating && !slices.Contains(o.Finalizers, volumes.Finalizer):
		return "terminating", never
	case v.Policy == "Retain":
		return "not_reclaimed_by_deletion", never
	case v.Phase == "Failed":
		return "reclaim_failed", never
	case v.Phase == "Bound":
		return "not_released", never
	case !s.claims.known || s.blind():
		return "others_not_read", never
	case v.Claim.Name == "" || v.Claim.UID == "":
		return "claim_unknown", never
	}
	for _, c := range s.claims.observed {
		if c.Name == v.Claim.Name && c.UID != v.Claim.UID {
			return "claim_of_another_life", never
		} else if c.Name == v.Claim.Name {
			return "claim_exists", never
		}
	}
	for _, c := range s.claims.observed {
		if c.fields.(volumes.Claim).Volume == o.Name {
			return "claim_wants_it", never
		}
	}
	for uid, other := range s.c.observed {
		if x, _ := other.fields.(volumes.Volume); uid != o.UID && v.Handle != "" && x.Handle == v.Handle {
			return "handle_shared", never
		}
	}
	if !s.attachments.known {
		return "others_not_read", never
	}
	for _, a := range s.attachments.observed {
		if x := a.fields.(volumes.Attachment); x.Volume == o.Name || v.Handle != "" && x.Handle == v.Handle {
			return "attached", never
		}
	}
	return s.judgeMaker(o, v, maker)
}

func (s *storage) judgeMaker(o gctest.Object, v volumes.Volume, maker string) (gc.Reason, time.Time) {
	never, everything := time.Time{}, s.drivers.known && s.csiNodes.known && s.classes.known
	switch {
	case slices.Contains(o.Finalizers, "external-attacher/one-example-com"):
		return "held_by_finalizers", never
	case maker == "" || v.Driver != "" && v.Handle == "":
		return "not_provisioned", never
	case v.ProvisionedBy == v.Driver && maker == v.Driver && s.serves(maker):
	case !everything:
		return "others_not_read", never
	case maker == v.Driver && !s.hasDriver(maker):
		return "driver_gone", never
	case !s.hasDriver(maker) && !s.hasClass(maker):
		return "provisioner_gone", never
	default:
		return "left_to_provisioner", never
	}
	if (v.Secret.Name == "") != (v.Secret.Namespace == "") {
		return "deletion_secret_unclear", never
	}
	if v.Since.IsZero() {
		return "released_since_unknown", never
	}
	due := v.Since.Add(s.released)
	for _, at := range []time.Time{s.c.retry[o.UID], s.c.until[v.Driver]} {
		if at.After(due) {
			due = at
		}
	}
	return "released", due
}

func (s *storage) act(o gctest.Object, a gc.Action) gc.Action {
	v := o.Fields.(volumes.Volume)
	a.Verb, a.Policy, a.Driver = gc.DeleteVolume, "", v.Driver
	a.Owner = gc.Coordinates{APIVersion: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", Namespace: v.Claim.Namespace, Name: v.Claim.Name, UID: v.Claim.UID}
	return a
}

func (s *storage) configure(now time.Time) {
	s.released = among(s.t, 24*time.Hour, 24*time.Hour, 30*time.Hour)
	s.serve = among(s.t, nil, []string{one}, []string{one, two}, []string{one, two})
	short := s.released
	if short == 24*time.Hour {
		short = among(s.t, 24*time.Hour, time.Hour, 0) // a day is the least
	}
	clear(s.c.failures)
	clear(s.c.retry)
	clear(s.c.pause)
	clear(s.c.until)
	s.c.Configure(now, volumes.Config{ReleasedFor: short, Serve: s.serve, AtOnce: 1000})
}

func (s *storage) all() []*beside {
	return []*beside{s.claims, s.attachments, s.csiNodes, s.drivers, s.classes}
}

// counted reports whether the counts match what is explained.
func (s *storage) counted() bool {
	want, got := map[gc.Reason]int{}, map[gc.Reason]int{}
	for _, observed := range []map[string]thing{s.c.observed, s.attachments.observed, s.csiNodes.observed} {
		for uid := range observed {
			f, _ := s.c.Explain(gc.Coordinates{UID: uid})
			want[f.Reason]++
		}
	}
	for _, p := range s.c.Reported(1000) {
		if f, _ := s.c.Explain(p.Object); f != p.Finding || !f.Due.IsZero() {
			return false
		}
	}
	for why, n := range s.c.Counts(s.Now) {
		got[why] = n
	}
	for why := range got {
		if want[why] != got[why] {
			return false
		}
	}
	return len(want) == len(got)
}

// TestHistories has random histories of volumes, and of all that bears on them, judged
// from scratch at each step.
func TestHistories(t *testing.T) {
	deleted, steps := 0, map[gc.Reason]int{}
	gctest.Histories(t, func(t *rapid.T) {
		s := &storage{t: t, c: newSpy("PersistentVolume")}
		s.claims = newBeside(t, s.c, "PersistentVolumeClaim", true, func(string) any { return volumes.Claim{Volume: mostly(t, "", "o-1", "o-9")} })
		s.attachments = newBeside(t, s.c, "VolumeAttachment", false, func(string) any {
			if pick(t, 64) == 0 {
				return nil
			}
			return volumes.Attachment{Volume: mostly(t, "o-9", "o-1"), Handle: mostly(t, "", "h-1"), Node: "n"}
		})
		s.csiNodes = newBeside(t, s.c, "CSINode", false, func(string) any { return among(t, volumes.Drivers{one}, volumes.Drivers{two, "x"}, volumes.Drivers{}) })
		s.drivers = newBeside(t, s.c, "CSIDriver", true, func(string) any { return nil })
		s.classes = newBeside(t, s.c, "StorageClass", true, func(string) any { return volumes.Class(among(t, one, old, "x")) })
		s.World = &gctest.World{
			Collector: s.c, Name: "volumes", Type: typeOf("PersistentVolume"), Pick: func(n int) int { return pick(t, n) }, Fatalf: t.Fatalf, Now: time.Unix(1e9, 0),
			Make: s.make, Configure: s.configure, Oracle: s.judge,
		}
		s.Beside = gctest.Beside{
			Step: func() {
				for range 5 {
					among(t, s.all()...).step(s.Now)
				}
			}, Act: s.act,
			Kept: func() (n int) {
				for _, b := range s.all() {
					n += len(b.observed)
				}
				return n
			},
			Restored: func() {
				for _, b := range s.all() {
					b.restored()
				}
			},
		}
		s.configure(s.Now)
		for _, b := range s.all() {
			b.list(s.Now)
			b.list(s.Now)
		}
		for range 1000 {
			s.Step()
			if !s.counted() {
				t.Fatal("what is counted is not what is explained")
			}
		}
		for uid := range s.c.observed {
			f, _ := s.c.Explain(gc.Coordinates{UID: uid})
			steps[f.Reason]++
		}
		deleted += s.Deleted
	})
	if t.Logf("%d were deleted; at the end: %v", deleted, steps); deleted == 0 {
		t.Error("nothing was ever deleted")
	}
}
