package preview

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

// moment is the time of the whole simulation. Time does not advance. Only retries of
// unknown owners wait for it, and those would change nothing by themselves.
var moment = time.Unix(1_000_000_000, 0).UTC()

// place identifies an object, whatever version of its type names it.
type place struct{ group, kind, namespace, name string }

type typeName struct{ apiVersion, kind string }

// sim is the API server, as far as a cascade needs one, and the collector.
type sim struct {
	c       *cascade.Collector
	types   map[typeName]gc.Type
	watched map[[2]string]bool // by group and kind: all objects are in World.Objects
	objects map[place]gc.Object
	version uint64
	known   map[gc.Coordinates]gc.Answer
	asked   map[gc.Coordinates]bool
	order   []Question
	// The actions since the deletion, by UID, and the objects that changed, in order.
	changed map[string][]gc.Action
	touched []place
}

func newSim(w World) *sim {
	s := &sim{
		c:     cascade.New(cascade.Config{ExcludedNamespaces: w.ExcludedNamespaces, TrustAggregated: true}),
		types: make(map[typeName]gc.Type), watched: make(map[[2]string]bool),
		objects: make(map[place]gc.Object, len(w.Objects)),
		known:   w.Known, asked: make(map[gc.Coordinates]bool),
		changed: make(map[string][]gc.Action),
	}
	for _, t := range w.Types {
		s.types[typeName{t.APIVersion, t.Kind}] = t
		s.c.TypeCame(moment, t)
		if !t.Unwatched {
			s.watched[[2]string{gc.GroupOf(t.APIVersion), t.Kind}] = true
			s.c.Listing(moment, t.APIVersion, t.Kind)
		}
	}
	// Sorted, because lists have no fixed order. Where a race decides the outcome, the same
	// world must give the same answer.
	objects := slices.Clone(w.Objects)
	slices.SortFunc(objects, func(a, b gc.Object) int {
		return cmp.Or(strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(a.Kind, b.Kind),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
	})
	for _, o := range objects {
		if v, err := strconv.ParseUint(o.ResourceVersion, 10, 64); err == nil {
			s.version = max(s.version, v)
		}
		s.objects[placeOf(o)] = o
		s.c.Observe(moment, o)
	}
	for _, t := range w.Types {
		if !t.Unwatched {
			s.c.Synced(moment, t.APIVersion, t.Kind)
		}
	}
	return s
}

func placeOf(o gc.Object) place {
	return place{gc.GroupOf(o.APIVersion), o.Kind, o.Namespace, o.Name}
}

// put gives an object a new version and reports it to the collector. An object that nothing
// holds is removed.
func (s *sim) put(o gc.Object) {
	s.version++
	o.ResourceVersion = strconv.FormatUint(s.version, 10)
	p := placeOf(o)
	if _, known := s.changed[o.UID]; !known {
		s.changed[o.UID] = nil
		s.touched = append(s.touched, p)
	}
	if o.Gone() {
		delete(s.objects, p)
		s.c.Forget(moment, o)
		return
	}
	s.objects[p] = o
	s.c.Observe(moment, o)
}

// batch is the maximum number of actions per call of Ready.
const batch = 256

// run carries out the collector's actions until there are none.
func (s *sim) run() {
	for {
		actions := s.c.Ready(moment, batch)
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			s.carryOut(a)
		}
	}
}

func (s *sim) carryOut(a gc.Action) {
	switch a.Verb {
	case gc.Warn, gc.Withdraw:
	case gc.Record:
		s.c.Finished(moment, a.ID, gc.Done)
	case gc.Verify, gc.Read:
		s.c.Answered(moment, moment, a.ID, s.read(a.Object))
	default:
		s.c.Finished(moment, a.ID, s.request(a))
	}
}

// read simulates a live read.
func (s *sim) read(o gc.Coordinates) gc.Answer {
	t, served := s.types[typeName{o.APIVersion, o.Kind}]
	group := gc.GroupOf(o.APIVersion)
	if found, ok := s.objects[place{group, o.Kind, o.Namespace, o.Name}]; ok {
		found.APIVersion = o.APIVersion
		return gc.Answer{State: gc.Exists, Object: found}
	}
	if _, gone := s.changed[o.UID]; gone {
		return gc.Answer{State: gc.Absent} // it was deleted in this simulation
	}
	key := o
	key.Resource = ""
	if answer, ok := s.known[key]; ok {
		return answer
	}
	if served && !s.asked[key] {
		s.asked[key] = true
		s.order = append(s.order, Question{o, t.Namespaced})
	}
	if served && s.watched[[2]string{group, o.Kind}] {
		return gc.Answer{State: gc.Absent}
	}
	return gc.Answer{}
}

// request simulates a DELETE or a patch by the collector.
func (s *sim) request(a gc.Action) gc.Result {
	o, ok := s.objects[place{gc.GroupOf(a.Object.APIVersion), a.Object.Kind, a.Object.Namespace, a.Object.Name}]
	if !ok {
		return gc.Gone
	}
	after, ok := a.Apply(o)
	if !ok {
		return gc.Conflict
	}
	s.put(after)
	s.changed[o.UID] = append(s.changed[o.UID], a)
	return gc.Done
}

// serve removes the foreign finalizers from terminating objects, among these and the
// touched ones. It reports whether there were any.
func (s *sim) serve(among []place) (any bool) {
	for _, p := range slices.Concat(among, s.touched) {
		o, ok := s.objects[p]
		if !ok || !o.Terminating || len(foreign(o)) == 0 {
			continue
		}
		o.Finalizers = slices.DeleteFunc(slices.Clone(o.Finalizers), isForeign)
		s.put(o)
		any = true
	}
	return any
}

func isForeign(f string) bool {
	return f != gc.OrphanFinalizer && f != gc.ForegroundFinalizer
}

// foreign returns the finalizers that the collector does not remove.
func foreign(o gc.Object) (list []string) {
	for _, f := range o.Finalizers {
		if isForeign(f) {
			list = append(list, f)
		}
	}
	return list
}
