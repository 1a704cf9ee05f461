package volumes_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/volumes"
)

// pick a number below n. Ranges of rapid prefer what is small.
func pick(t *rapid.T, n int) (v int) {
	for m := 1; m < n; m *= 2 {
		if v *= 2; rapid.Bool().Draw(t, "bit") {
			v++
		}
	}
	return v % n
}

func typeOf(kind string) gc.Type {
	version := map[string]string{"PersistentVolume": "v1", "PersistentVolumeClaim": "v1", "Node": "v1", "Lease": "coordination.k8s.io/v1"}[kind]
	if version == "" {
		version = "storage.k8s.io/v1"
	}
	return gc.Type{APIVersion: version, Kind: kind, Resource: resources[kind], Namespaced: kind == "PersistentVolumeClaim" || kind == "Lease"}
}

var resources = map[string]string{
	"PersistentVolume": "persistentvolumes", "PersistentVolumeClaim": "persistentvolumeclaims", "Node": "nodes",
	"Lease": "leases", "VolumeAttachment": "volumeattachments", "CSINode": "csinodes", "CSIDriver": "csidrivers", "StorageClass": "storageclasses",
}

// thing is an object of a type beside the one at hand.
type thing struct {
	gc.Object
	fields any
}

// beside is all of one type, as it is on the server and as it was observed.
type beside struct {
	t      *rapid.T
	to     gc.Interface
	gcType gc.Type
	byName bool // one of a name is known at a time
	make   func(name string) any

	server   map[string]thing // by name
	observed map[string]thing // by UID
	listed   map[string]bool  // UIDs; nil: no list is on its way
	known    bool             // they were listed, and can be read since
	since    time.Time        // that is so
	left     map[string]time.Time
	next     int
}

func newBeside(t *rapid.T, to gc.Interface, kind string, byName bool, make func(string) any) *beside {
	return &beside{t: t, to: to, gcType: typeOf(kind), byName: byName, make: make, server: map[string]thing{}, observed: map[string]thing{}, left: map[string]time.Time{}}
}

func (b *beside) step(now time.Time) {
	name := fmt.Sprint("o-", pick(b.t, 3))
	watched := b.known && b.listed == nil
	switch pick(b.t, 8) {
	case 0, 1: // it comes, or changes
		o, there := b.server[name]
		if b.next++; !there {
			o = thing{Object: gc.Object{APIVersion: b.gcType.APIVersion, Kind: b.gcType.Kind, Name: name, UID: fmt.Sprint(b.gcType.Kind, "-", b.next)}}
			if b.gcType.Namespaced {
				o.Namespace = "ns"
			}
		}
		o.ResourceVersion, o.fields = fmt.Sprint(b.next), b.make(name)
		if b.server[name] = o; watched {
			b.observe(now, o)
		}
	case 2, 3: // it goes
		o, there := b.server[name]
		if delete(b.server, name); there && watched {
			b.gone(now, o)
		}
	case 4:
		if pick(b.t, 8) == 0 {
			b.to.Unreadable(now, b.gcType)
			b.known, b.listed = false, nil
		}
	default:
		b.list(now)
	}
}

func (b *beside) observe(now time.Time, o thing) {
	if b.byName {
		maps.DeleteFunc(b.observed, func(_ string, x thing) bool { return x.Name == o.Name && x.UID != o.UID })
	}
	b.observed[o.UID] = o
	b.to.Observe(now, b.gcType, o.Object, o.fields)
}

func (b *beside) gone(now time.Time, o thing) {
	b.to.Forget(now, b.gcType, o.Object)
	delete(b.observed, o.UID)
	b.left[o.Name] = now
}

func (b *beside) list(now time.Time) {
	switch {
	case b.listed == nil && b.known && pick(b.t, 16) > 0: // they are watched
	case b.listed == nil:
		b.listed, b.known = map[string]bool{}, false
		b.to.Listing(now, b.gcType)
		for _, name := range slices.Sorted(maps.Keys(b.server)) {
			b.listed[b.server[name].UID] = true
			b.observe(now, b.server[name])
		}
	default:
		b.to.Synced(now, b.gcType)
		b.known, b.since = true, now
		for _, uid := range slices.Sorted(maps.Keys(b.observed)) {
			if o := b.observed[uid]; !b.listed[uid] {
				delete(b.observed, uid)
				b.left[o.Name] = now
			}
		}
		b.listed = nil
		for _, uid := range slices.Sorted(maps.Keys(b.observed)) {
			if o := b.observed[uid]; b.server[o.Name].UID != uid {
				b.gone(now, o)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(b.server)) {
			if o := b.server[name]; b.observed[o.UID].ResourceVersion != o.ResourceVersion {
				b.observe(now, o)
			}
		}
	}
}

func (b *beside) restored() {
	clear(b.observed)
	b.known, b.listed = false, nil
}

func (b *beside) named(name string) bool {
	for _, o := range b.observed {
		if o.Name == name {
			return true
		}
	}
	return false
}

// spy records what a collector observes of its kind, and the results of its deletions.
type spy struct {
	*volumes.Collector
	kind     string
	observed map[string]thing
	listed   map[string]bool
	known    bool

	calls    map[uint64]gc.Action
	failures map[string]int
	retry    map[string]time.Time
	pause    map[string]time.Duration // by driver
	until    map[string]time.Time
}

func newSpy(kind string) *spy {
	return &spy{Collector: volumes.New(volumes.Config{}), kind: kind, observed: map[string]thing{}, listed: map[string]bool{}, calls: map[uint64]gc.Action{},
		failures: map[string]int{}, retry: map[string]time.Time{}, pause: map[string]time.Duration{}, until: map[string]time.Time{}}
}

func (s *spy) Listing(now time.Time, t gc.Type) {
	if t.Kind == s.kind {
		s.known, s.listed = false, map[string]bool{}
	}
	s.Collector.Listing(now, t)
}

func (s *spy) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	if t.Kind == s.kind {
		if s.observed[o.UID].ResourceVersion != o.ResourceVersion {
			delete(s.failures, o.UID)
			delete(s.retry, o.UID)
		}
		s.observed[o.UID], s.listed[o.UID] = thing{o, fields}, true
	}
	s.Collector.Observe(now, t, o, fields)
}

func (s *spy) Forget(now time.Time, t gc.Type, o gc.Object) {
	if t.Kind == s.kind {
		delete(s.observed, o.UID)
	}
	s.Collector.Forget(now, t, o)
}

func (s *spy) Synced(now time.Time, t gc.Type) {
	if t.Kind == s.kind {
		s.known = true
		maps.DeleteFunc(s.observed, func(uid string, _ thing) bool { return !s.listed[uid] })
	}
	s.Collector.Synced(now, t)
}

func (s *spy) Unreadable(now time.Time, t gc.Type) {
	s.known = s.known && t.Kind != s.kind
	s.Collector.Unreadable(now, t)
}

func (s *spy) Restored(now time.Time) {
	s.known = false
	clear(s.observed)
	s.Collector.Restored(now)
}

func (s *spy) Ready(now time.Time, most int) []gc.Action {
	list := s.Collector.Ready(now, most)
	for _, a := range list {
		if a.Verb == gc.DeleteVolume {
			s.calls[a.ID] = a
		}
	}
	return list
}

func (s *spy) Finished(now time.Time, id uint64, r gc.Result) {
	a, called := s.calls[id]
	delete(s.calls, id)
	s.Collector.Finished(now, id, r)
	uid := a.Object.UID
	switch same := called && s.observed[uid].ResourceVersion == a.ResourceVersion; {
	case !called:
	case r == gc.TooMany && !s.until[a.Driver].After(now):
		s.pause[a.Driver] = min(max(2*s.pause[a.Driver], 5*time.Second), 10*time.Minute)
		s.until[a.Driver] = now.Add(s.pause[a.Driver])
	case r == gc.Done:
		delete(s.pause, a.Driver)
		delete(s.until, a.Driver)
	case same && (r == gc.Failed || r == gc.Forbidden || r == gc.Conflict):
		wait := time.Minute
		for range s.failures[uid] {
			wait = min(2*wait, time.Hour)
		}
		s.failures[uid]++
		s.retry[uid] = now.Add(wait)
	}
}
