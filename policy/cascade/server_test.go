package cascade

import (
	"fmt"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// server is a small API server: objects, versions, propagation policies,
// finalizers and preconditions as k8s.io/apiserver v0.36.3 treats them
// (pkg/registry/generic/registry/store.go: Delete,
// deletionFinalizersForGarbageCollection, ShouldDeleteDuringUpdate).
type server struct {
	now     time.Time
	version int
	objects []*stored            // in order of creation
	streams map[string]*stream   // by watched type
	types   map[string]*servedAs // by apiVersion/kind: what discovery and reads know
	nextUID int
	fault   string // the first action that the true world forbids
	// What was so for a while: rules that rest on a read allow what it returned.
	waited   map[string]time.Time // UID: last moment at which it waited
	orphans  map[string]int       // UID: version at which it first was to be orphaned
	owned    map[string][]string  // UID: those that it ever named as owners
	deleted  int                  // successful deletions by the collector
	excludes string               // the namespace that is excluded
	// Orphaned owners: when they were recorded in the durable journal, and those whose
	// finalizer the collector took off, until a user decides otherwise.
	journal    map[string]time.Time
	leftBehind map[string]bool
	forgotten  int // entries of the journal that a sweep took away
	lies       lying
	asRead     map[string]gc.Object // of another API server: UID, as a live read last returned
}

type stored struct {
	gc.Object
	refSince map[string]int // UID of an owner: version at which the reference was written
}

// servedAs is a type in one version. Several may share objects.
type servedAs struct {
	gc.Type
	store  string // the kind that holds the objects
	served bool
}

// stream is one type's watch: what was not delivered yet, and what was.
type stream struct {
	as      string
	pending []event
	past    []event
	listed  bool
}

type event struct {
	deleted bool
	object  gc.Object
	behind  bool // a list that was older left it out
}

// lying is what another API server does once in its life: it answers NotFound whatever
// it is asked, and leaves objects out of lists.
type lying uint8

const (
	truthful lying = iota
	lyingNow
	liedOnce
)

func typeKey(apiVersion, kind string) string { return apiVersion + " " + kind }

func newServer() *server {
	s := &server{
		now: noon, asRead: map[string]gc.Object{}, streams: map[string]*stream{}, types: map[string]*servedAs{},
		waited: map[string]time.Time{}, orphans: map[string]int{}, owned: map[string][]string{},
		journal: map[string]time.Time{}, leftBehind: map[string]bool{},
	}
	for _, t := range []gc.Type{
		{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true},
		{APIVersion: "apps/v1", Kind: "Set", Resource: "sets", Namespaced: true},
		{APIVersion: "x.io/v1", Kind: "Thing", Resource: "things", Namespaced: true},
		{APIVersion: "x.io/v1", Kind: "Realm", Resource: "realms"},
		{APIVersion: "agg.io/v1", Kind: "Far", Resource: "fars", Namespaced: true, Aggregated: true},
	} {
		s.types[typeKey(t.APIVersion, t.Kind)] = &servedAs{t, t.Kind, true}
		s.streams[t.Kind] = &stream{as: typeKey(t.APIVersion, t.Kind)}
	}
	// Thing is served in a second version, too, which nobody watches.
	old := gc.Type{APIVersion: "x.io/v1beta1", Kind: "Thing", Resource: "things", Namespaced: true, Unwatched: true}
	s.types[typeKey(old.APIVersion, old.Kind)] = &servedAs{old, "Thing", true}
	return s
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func (s *server) find(kind, namespace, name string) *stored {
	for _, o := range s.objects {
		if o.Kind == kind && o.Namespace == namespace && o.Name == name {
			return o
		}
	}
	return nil
}

func (s *server) byUID(uid string) *stored {
	for _, o := range s.objects {
		if o.UID == uid {
			return o
		}
	}
	return nil
}

// create an object; nil if the name is taken.
func (s *server) create(kind, namespace, name string, owners []gc.Reference, finalizers []string) *stored {
	t := s.types[s.streams[kind].as]
	if !t.Namespaced {
		namespace = ""
	}
	if s.find(kind, namespace, name) != nil {
		return nil
	}
	s.nextUID++
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x", s.nextUID*7919, s.nextUID)
	if s.nextUID%5 == 0 {
		id = fmt.Sprint("uid-", s.nextUID) // not every API server makes UUIDs
	}
	o := &stored{Object: gc.Object{
		APIVersion: t.APIVersion, Kind: kind, Namespace: namespace, Name: name, UID: id,
		Owners: owners, Finalizers: finalizers,
	}, refSince: map[string]int{}}
	s.objects = append(s.objects, o)
	s.changed(o)
	return o
}

// changed gives an object a new version, and notifies the watch.
func (s *server) changed(o *stored) {
	s.version++
	o.ResourceVersion = fmt.Sprint(s.version)
	for id := range o.refSince {
		if !slices.ContainsFunc(o.Owners, func(r gc.Reference) bool { return r.UID == id }) {
			delete(o.refSince, id)
		}
	}
	for _, r := range o.Owners {
		if !slices.Contains(s.owned[o.UID], r.UID) {
			s.owned[o.UID] = append(s.owned[o.UID], r.UID)
		}
		if o.refSince[r.UID] == 0 {
			o.refSince[r.UID] = s.version
		}
	}
	if o.Terminating && slices.Contains(o.Finalizers, gc.OrphanFinalizer) && s.orphans[o.UID] == 0 {
		s.orphans[o.UID] = s.version
	}
	st := s.streams[o.Kind]
	if o.Gone() {
		s.objects = slices.DeleteFunc(s.objects, func(p *stored) bool { return p == o })
		st.pending = append(st.pending, event{deleted: true, object: snapshot(o)})
		return
	}
	st.pending = append(st.pending, event{object: snapshot(o)})
}

func snapshot(o *stored) gc.Object {
	c := o.Object
	c.Owners, c.Finalizers = slices.Clone(o.Owners), slices.Clone(o.Finalizers)
	return c
}

func (s *server) isWaiting(o *stored) bool {
	return o.Terminating && slices.Contains(o.Finalizers, gc.ForegroundFinalizer)
}

// tick notes who waits, before anything changes.
func (s *server) tick() {
	for _, o := range s.objects {
		if s.isWaiting(o) {
			s.waited[o.UID] = s.now
		}
	}
}

// remove is a DELETE; policy "" is none.
func (s *server) remove(o *stored, p gc.Policy) {
	s.tick()
	if p != "" {
		delete(s.leftBehind, o.UID)
	}
	o.Finalizers = p.Finalizers(o.Finalizers)
	o.Terminating = true
	s.changed(o)
}

func (s *server) setFinalizers(o *stored, list []string) {
	s.tick()
	o.Finalizers = list
	s.changed(o)
}

func (s *server) setOwners(o *stored, refs []gc.Reference) {
	s.tick()
	o.Owners = refs
	s.changed(o)
}

// owner of a reference in the true world: served or not, watched or not.
func (s *server) owner(dependent *stored, r gc.Reference) *stored {
	t := s.types[typeKey(r.APIVersion, r.Kind)]
	if t == nil {
		return s.byUID(r.UID) // nobody knows: taken for alive if anything is
	}
	namespace := dependent.Namespace
	if !t.Namespaced {
		namespace = ""
	}
	if o := s.find(t.store, namespace, r.Name); o != nil && o.UID == r.UID {
		return o
	}
	return nil
}

func (s *server) unresolvable(o *stored) bool {
	return o.Namespace == "" && slices.ContainsFunc(o.Owners, func(r gc.Reference) bool {
		t := s.types[typeKey(r.APIVersion, r.Kind)]
		return t == nil || t.Namespaced
	})
}

// mayGo returns why a reference may not be taken for dangling or waiting; "" if it
// may.
func (s *server) mayGo(o *stored, r gc.Reference) string {
	owner := s.owner(o, r)
	if owner == nil || s.isWaiting(owner) {
		return ""
	}
	if at, ok := s.waited[owner.UID]; ok && s.now.Sub(at) <= time.Second {
		return "" // a read returned this within the last second
	}
	return fmt.Sprintf("%s %s is a solid owner", owner.Kind, owner.Name)
}

func (s *server) excluded(o *stored) bool { return s.excludes != "" && o.Namespace == s.excludes }

// checkRoot holds the root of a deletion against who ever owned whom: it is an owner of
// the object, or one of those, and nobody keeps it.
func (s *server) checkRoot(a gc.Action, o *stored) {
	above := []string{o.UID}
	for at := 0; at < len(above); at++ {
		for _, id := range s.owned[above[at]] {
			if !slices.Contains(above, id) {
				above = append(above, id)
			}
		}
	}
	if a.Root.UID == "" || !slices.Contains(above, a.Root.UID) {
		s.forbid(a, "its root %q never owned it", a.Root.UID)
	}
	unseen := func(e event) bool { return e.object.UID == a.Root.UID }
	if r := s.byUID(a.Root.UID); r != nil && r.Kind == "Far" && s.lies != truthful {
		return // it was left out of a list: a root only names whose envelope it is
	}
	if r := s.byUID(a.Root.UID); r != nil && !r.Terminating && !slices.ContainsFunc(s.streams[r.Kind].pending, unseen) && r.Name == a.Root.Name && r.Namespace == a.Root.Namespace {
		s.forbid(a, "its root %s %s is there, and nobody deletes it", r.Kind, r.Name)
	}
}

func (s *server) forbid(a gc.Action, format string, args ...any) {
	if s.fault == "" {
		s.fault = fmt.Sprintf("%s %s %s/%s (%s): ", a.Verb, a.Object.Kind, a.Object.Namespace, a.Object.Name, a.Reason) + fmt.Sprintf(format, args...)
	}
}
