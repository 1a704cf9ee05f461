package extension

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Object is a stored object. An empty UID is replaced by a new one.
type Object struct {
	Namespace, Name, UID string
	Owners               []metav1.OwnerReference
	Finalizers           []string
	Deleting             bool // deletion was requested, and finalizers remain
}

// firstVersion is greater than lowerBy, by which LowerVersions lowers versions.
const firstVersion, lowerBy = 2_000_000, 1_000_000

// event is a change, as a watch sends it.
type event struct {
	version  uint64
	what     string
	resource string
	object   *Object // immutable
}

type place struct{ resource, namespace, name string }

// change runs do under the lock, and wakes all waiting handlers.
func (s *Server) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// put stores a new or changed object. If announce is set, watches receive the event.
func (s *Server) put(resource string, o Object, announce bool) *Object {
	at := place{resource, o.Namespace, o.Name}
	what, old := "MODIFIED", s.objects[at]
	if old == nil {
		what = "ADDED"
	}
	s.version++
	delete(s.versions, old)
	s.objects[at], s.versions[&o] = &o, s.version
	s.notify(resource, &o, false)
	if announce {
		s.happened(event{s.version, what, resource, &o})
	}
	return &o
}

// mostPast is how many events are remembered. A watch from an older version gets 410
// Gone.
const mostPast = 10_000

func (s *Server) happened(e event) {
	if len(s.past) >= mostPast {
		half := len(s.past) / 2
		s.forgotten = s.past[half-1].version
		s.past = slices.Clone(s.past[half:])
	}
	s.past = append(s.past, e)
}

// drop removes an object. If announce is set, watches receive the event.
func (s *Server) drop(resource string, o *Object, announce bool) {
	s.version++
	delete(s.versions, o)
	delete(s.objects, place{resource, o.Namespace, o.Name})
	s.notify(resource, o, true)
	if announce {
		s.happened(event{s.version, "DELETED", resource, o})
	}
}

// notify calls Config.Changed, except for an object that is stored only to be removed at
// once.
func (s *Server) notify(resource string, o *Object, gone bool) {
	if s.config.Changed != nil && (gone || !o.gone()) {
		s.config.Changed(resource, o.clone(), gone)
	}
}

func (s *Server) newUID() string {
	s.uids++
	return fmt.Sprintf("e0000000-0000-4000-8000-%012d", s.uids)
}

// Add stores an object, replaces one of that name, and returns its UID.
func (s *Server) Add(resource string, o Object) (uid string) {
	s.change(func() {
		if o.UID == "" {
			o.UID = s.newUID()
		}
		s.put(resource, o, true)
	})
	return o.UID
}

// Change changes an object, if it exists. Watches receive the event.
func (s *Server) Change(resource, namespace, name string, change func(*Object)) (found bool) {
	return s.modify(resource, namespace, name, true, change)
}

// ChangeUnseen changes an object, if it exists. No watch receives an event.
func (s *Server) ChangeUnseen(resource, namespace, name string, change func(*Object)) (found bool) {
	return s.modify(resource, namespace, name, false, change)
}

func (s *Server) modify(resource, namespace, name string, announce bool, change func(*Object)) (found bool) {
	s.change(func() {
		if o := s.objects[place{resource, namespace, name}]; o != nil {
			found = true
			c := o.clone()
			change(&c)
			s.put(resource, c, announce)
		}
	})
	return found
}

// Remove removes an object at once, whatever its finalizers. Watches receive the event.
func (s *Server) Remove(resource, namespace, name string) (found bool) {
	return s.remove(resource, namespace, name, true)
}

// RemoveUnseen removes an object at once. No watch receives an event.
func (s *Server) RemoveUnseen(resource, namespace, name string) (found bool) {
	return s.remove(resource, namespace, name, false)
}

func (s *Server) remove(resource, namespace, name string, announce bool) (found bool) {
	s.change(func() {
		if o := s.objects[place{resource, namespace, name}]; o != nil {
			s.drop(resource, o, announce)
			found = true
		}
	})
	return found
}

// Get returns an object as it is stored, whatever faults are active.
func (s *Server) Get(resource, namespace, name string) (o Object, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.objects[place{resource, namespace, name}]; p != nil {
		return p.clone(), true
	}
	return o, false
}

func (s *Server) sorted(resource, namespace string) (all []*Object) {
	for at, o := range s.objects {
		if at.resource == resource && (namespace == "" || at.namespace == namespace) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *Object) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return all
}

func (s *Server) resources() []string { return slices.Sorted(maps.Keys(s.types)) }

func (o *Object) clone() Object {
	c := *o
	c.Owners, c.Finalizers = slices.Clone(o.Owners), slices.Clone(o.Finalizers)
	return c
}

// document returns an object as the API shows it, with that version.
func (s *Server) document(resource string, o *Object, version uint64) metav1.PartialObjectMetadata {
	d := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, OwnerReferences: o.Owners, Finalizers: o.Finalizers, ResourceVersion: strconv.FormatUint(version, 10)}}
	d.SetGroupVersionKind(s.groupVersion().WithKind(s.types[resource].Kind))
	d.UID = types.UID(o.UID)
	if o.Deleting {
		d.DeletionTimestamp = &metav1.Time{Time: s.began}
	}
	return d
}
