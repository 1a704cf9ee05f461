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

// Object is what is stored of one. UID may be left empty: it gets one.
type Object struct {
	Namespace, Name, UID string
	Owners               []metav1.OwnerReference
	Finalizers           []string
	Deleting             bool // it was deleted, and its finalizers hold it
}

// firstVersion is above what LowerVersions takes away.
const firstVersion, lowerBy = 2_000_000, 1_000_000

// event is something that happened, as a watch tells it.
type event struct {
	version  uint64
	what     string
	resource string
	object   *Object // never changed
}

type place struct{ resource, namespace, name string }

// change does something under the lock, and wakes all who wait.
func (s *Server) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// put stores an object that is new or changed, and tells the watches unless that is to
// stay unknown.
func (s *Server) put(resource string, o Object, tell bool) *Object {
	at := place{resource, o.Namespace, o.Name}
	what, old := "MODIFIED", s.objects[at]
	if old == nil {
		what = "ADDED"
	}
	s.version++
	delete(s.versions, old)
	s.objects[at], s.versions[&o] = &o, s.version
	s.told(resource, &o, false)
	if tell {
		s.happened(event{s.version, what, resource, &o})
	}
	return &o
}

// mostPast is how many events are remembered: a watch from before is 410 Gone.
const mostPast = 10_000

func (s *Server) happened(e event) {
	if len(s.past) >= mostPast {
		half := len(s.past) / 2
		s.forgotten = s.past[half-1].version
		s.past = slices.Clone(s.past[half:])
	}
	s.past = append(s.past, e)
}

// drop takes an object away, and tells the watches unless that is to stay unknown.
func (s *Server) drop(resource string, o *Object, tell bool) {
	s.version++
	delete(s.versions, o)
	delete(s.objects, place{resource, o.Namespace, o.Name})
	s.told(resource, o, true)
	if tell {
		s.happened(event{s.version, "DELETED", resource, o})
	}
}

// told tells whoever wants to hear it of a change. What is put to go at once is not there.
func (s *Server) told(resource string, o *Object, gone bool) {
	if s.config.Changed != nil && (gone || !o.gone()) {
		s.config.Changed(resource, o.clone(), gone)
	}
}

func (s *Server) newUID() string {
	s.uids++
	return fmt.Sprintf("e0000000-0000-4000-8000-%012d", s.uids)
}

// Add stores an object, in place of one of that name, and returns its UID.
func (s *Server) Add(resource string, o Object) (uid string) {
	s.change(func() {
		if o.UID == "" {
			o.UID = s.newUID()
		}
		s.put(resource, o, true)
	})
	return o.UID
}

// Change has an object changed, if it is there.
func (s *Server) Change(resource, namespace, name string, change func(*Object)) (found bool) {
	return s.modify(resource, namespace, name, true, change)
}

// ChangeUntold has an object changed, and no watch tells of it.
func (s *Server) ChangeUntold(resource, namespace, name string, change func(*Object)) (found bool) {
	return s.modify(resource, namespace, name, false, change)
}

func (s *Server) modify(resource, namespace, name string, tell bool, change func(*Object)) (found bool) {
	s.change(func() {
		if o := s.objects[place{resource, namespace, name}]; o != nil {
			found = true
			c := o.clone()
			change(&c)
			s.put(resource, c, tell)
		}
	})
	return found
}

// Remove takes an object away at once, whatever its finalizers; the watches tell.
func (s *Server) Remove(resource, namespace, name string) (found bool) {
	return s.remove(resource, namespace, name, true)
}

// RemoveUntold takes an object away, and no watch tells of it.
func (s *Server) RemoveUntold(resource, namespace, name string) (found bool) {
	return s.remove(resource, namespace, name, false)
}

func (s *Server) remove(resource, namespace, name string, tell bool) (found bool) {
	s.change(func() {
		if o := s.objects[place{resource, namespace, name}]; o != nil {
			s.drop(resource, o, tell)
			found = true
		}
	})
	return found
}

// Get is an object as it is stored, whatever faults are in force.
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

// document is an object as it is told, in a version.
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
