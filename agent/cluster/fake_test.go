package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/pods"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// fake is an API server in memory, for faults that a real one cannot be made to
// produce. Without them it does what a real one does: apitest specifies what that is.
type fake struct {
	unsure   chan struct{} // nil: the observed state still holds
	mu       sync.Mutex
	changed  *sync.Cond
	version  int
	types    []gc.Type
	partial  map[string]error
	discover error
	objects  map[gc.Coordinates]*gc.Object       // by apiVersion, kind, namespace, name
	log      []past                              // all that ever happened
	broken   map[string]error                    // kind: why it cannot be read
	older    bool                                // another API server answers discovery
	stuck    string                              // kind that never catches up
	back     int                                 // how often etcd was restored
	took     time.Duration                       // of each request
	hang     time.Duration                       // of each change besides
	do       func(a gc.Action) *metadata.Outcome // before the request is looked at; nil lets it through
	list     func() error                        // before a live list is read; nil lets it through
	sent     []gc.Action
	notices  []metadata.Notice
	reads    int
	asked    map[Right]bool // by the cascade only live reads
	lists    map[string]int // live ones, by kind
	catchUps int
	fields   map[string]any // by UID: what is not in metadata
	machines Machines
	kept     *journal.Memory // the journal of orphaned owners
}

type past struct {
	version int
	event   metadata.Event
}

func newFake() *fake {
	f := &fake{objects: map[gc.Coordinates]*gc.Object{}, fields: map[string]any{}, broken: map[string]error{}, took: time.Millisecond, kept: new(journal.Memory), asked: map[Right]bool{}, lists: map[string]int{}}
	f.changed = sync.NewCond(&f.mu)
	f.types = []gc.Type{
		{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true},
		{APIVersion: "apps/v1", Kind: "Set", Resource: "sets", Namespaced: true},
		{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Resource: "customresourcedefinitions"},
	}
	return f
}

func (f *fake) lock() func() { f.mu.Lock(); return f.mu.Unlock }

func at(o gc.Object) gc.Coordinates {
	return gc.Coordinates{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

func bare(c gc.Coordinates) gc.Coordinates {
	c.Resource, c.UID = "", ""
	return c
}

// put creates or changes an object, and sends the event to the watches.
func (f *fake) put(o gc.Object) gc.Object {
	defer f.lock()()
	return f.store(o)
}

func (f *fake) store(o gc.Object) gc.Object {
	f.version++
	o.ResourceVersion = strconv.Itoa(f.version)
	if o.UID == "" {
		o.UID = fmt.Sprintf("%s-%s-%d", o.Kind, o.Name, f.version)
	}
	kind := metadata.Observed
	if o.Terminating && len(o.Finalizers) == 0 {
		kind = metadata.Deleted
		delete(f.objects, at(o))
	} else {
		kept := o
		f.objects[at(o)] = &kept
	}
	f.log = append(f.log, past{f.version, metadata.Event{Kind: kind, Object: o, Fields: f.fields[o.UID]}})
	f.changed.Broadcast()
	return o
}

// remove deletes as the API server does with a policy.
func (f *fake) remove(o gc.Object, p gc.Policy) {
	defer f.lock()()
	f.strip(*f.objects[at(o)], p)
}

func (f *fake) strip(o gc.Object, p gc.Policy) {
	o.Finalizers = slices.DeleteFunc(slices.Clone(o.Finalizers), func(s string) bool {
		return s == gc.OrphanFinalizer || s == gc.ForegroundFinalizer
	})
	switch p {
	case gc.Orphan:
		o.Finalizers = append(o.Finalizers, gc.OrphanFinalizer)
	case gc.Foreground:
		o.Finalizers = append(o.Finalizers, gc.ForegroundFinalizer)
	}
	o.Terminating = true
	f.store(o)
}

func (f *fake) get(o gc.Object) *gc.Object {
	defer f.lock()()
	if found := f.objects[at(o)]; found != nil && found.UID == o.UID {
		kept := *found
		return &kept
	}
	return nil
}

func (f *fake) fault(kind string, err error) {
	defer f.lock()()
	f.broken[kind] = err
	f.changed.Broadcast()
}

func (f *fake) Discover(context.Context) (metadata.Discovery, error) {
	defer f.lock()()
	return metadata.Discovery{Types: slices.Clone(f.types), Partial: f.partial}, f.discover
}

func (f *fake) Read(ctx context.Context, o gc.Coordinates, _ bool) (gc.Answer, error) {
	time.Sleep(f.took)
	defer f.lock()()
	f.reads++
	f.ask("get", o.APIVersion, o.Kind, "")
	if err := f.broken[o.Kind]; err != nil {
		return gc.Answer{}, err
	}
	if !slices.ContainsFunc(f.types, func(t gc.Type) bool { return t.APIVersion == o.APIVersion && t.Kind == o.Kind }) {
		return gc.Answer{}, errors.New("404 page not found")
	}
	if found := f.objects[bare(o)]; found != nil {
		return gc.Answer{State: gc.Exists, Object: *found}, nil
	}
	return gc.Answer{State: gc.Absent}, nil
}

func (f *fake) Do(ctx context.Context, a gc.Action, _ bool) metadata.Outcome {
	if f.do != nil {
		if o := f.do(a); o != nil {
			return *o
		}
	}
	timer := time.NewTimer(f.took + f.hang)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return metadata.Outcome{Err: ctx.Err()}
	}
	defer f.lock()()
	f.sent = append(f.sent, a)
	switch {
	case !isOtherCollector(a):
	case a.Verb == gc.Delete:
		f.ask("delete", a.Object.APIVersion, a.Object.Kind, "")
	case a.Verb == gc.FailPod:
		f.ask("patch", a.Object.APIVersion, a.Object.Kind, "/status")
	default:
		f.ask("patch", a.Object.APIVersion, a.Object.Kind, "")
	}
	found := f.objects[bare(a.Object)]
	if found == nil {
		return metadata.Outcome{Result: gc.Gone}
	}
	o := *found
	if o.UID != a.Object.UID || (a.Verb == gc.Delete || a.Finalizer == gc.OrphanFinalizer) && a.ResourceVersion != o.ResourceVersion {
		return metadata.Outcome{Result: gc.Conflict}
	}
	o.Owners, o.Finalizers = slices.Clone(o.Owners), slices.Clone(o.Finalizers)
	elsewhere := func(p gc.Position) bool {
		p.Block = p.Index < len(o.Owners) && o.Owners[p.Index].Block // of which nobody asks
		return p.Index >= len(o.Owners) || o.Owners[p.Index] != p.Reference
	}
	if slices.ContainsFunc(a.Refs, elsewhere) ||
		a.Verb == gc.RemoveFinalizer && (a.Index >= len(o.Finalizers) || o.Finalizers[a.Index] != a.Finalizer) {
		return metadata.Outcome{Result: gc.Conflict}
	}
	switch a.Verb {
	case gc.Delete:
		f.strip(o, a.Policy)
		return metadata.Outcome{Result: gc.Done}
	case gc.RemoveFinalizer:
		o.Finalizers = slices.Delete(o.Finalizers, a.Index, a.Index+1)
	case gc.RemoveReferences:
		for _, p := range slices.Backward(a.Refs) {
			o.Owners = slices.Delete(o.Owners, p.Index, p.Index+1)
		}
	case gc.Unblock:
		for _, p := range a.Refs {
			o.Owners[p.Index].Block = false
		}
	}
	o = f.store(o)
	return metadata.Outcome{Result: gc.Done, Object: &o}
}

func (f *fake) ListFields(_ context.Context, t gc.Type, s metadata.Selection, _ metadata.Fields, take func(gc.Object, any) error) error {
	if f.list != nil {
		if err := f.list(); err != nil {
			return err
		}
	}
	unlock := f.lock()
	f.ask("list", t.APIVersion, t.Kind, "")
	f.lists[t.Kind]++
	err := f.broken[t.Kind]
	var all []gc.Object
	for _, o := range f.objects {
		if o.Kind == t.Kind && (s.Namespace == "" || o.Namespace == s.Namespace) && f.bound(o, s.Fields) {
			all = append(all, *o)
		}
	}
	with := maps.Clone(f.fields)
	unlock()
	for _, o := range all {
		if err == nil {
			err = take(o, with[o.UID])
		}
	}
	return err
}

// bound reports whether a field selector, which can only be about a Pod's Node, selects o.
func (f *fake) bound(o *gc.Object, selector string) bool {
	node, about := strings.CutPrefix(selector, "spec.nodeName=")
	p, _ := f.fields[o.UID].(pods.Pod)
	return !about || p.Node == node
}

func (f *fake) ReadFields(_ context.Context, o gc.Coordinates, _ bool, _ metadata.Fields) (any, error) {
	defer f.lock()()
	f.ask("get", o.APIVersion, o.Kind, "")
	if found := f.objects[bare(o)]; found != nil {
		return f.fields[found.UID], nil
	}
	return nil, errors.New("it is not there")
}

func (f *fake) Warn(_ context.Context, n metadata.Notice) error {
	defer f.lock()()
	f.notices = append(f.notices, n)
	return nil
}

func (f *fake) Sure() (bool, <-chan struct{}) {
	defer f.lock()()
	return f.unsure == nil, f.unsure
}

// doubt has nothing be sure until the end is called.
func (f *fake) doubt() (end func()) {
	defer f.lock()()
	f.unsure = make(chan struct{})
	return func() {
		defer f.lock()()
		close(f.unsure)
		f.unsure = nil
	}
}

func (f *fake) Time(now time.Time) (time.Time, bool) { return now, true }

// ask notes the right that a request needs; mu is held.
func (f *fake) ask(verb, apiVersion, kind, subresource string) {
	i := slices.IndexFunc(f.types, func(t gc.Type) bool { return t.APIVersion == apiVersion && t.Kind == kind })
	if i >= 0 {
		f.asked[Right{"", gc.GroupOf(apiVersion), f.types[i].Resource + subresource, verb}] = true
	}
}

func (f *fake) Follow(t gc.Type, fields metadata.Fields, sink metadata.Sink) Follower {
	return &fakeFollower{f: f, t: t, sink: sink}
}

type fakeFollower struct {
	f    *fake
	t    gc.Type
	sink metadata.Sink
	sent int // version up to which events were sent; under f.mu
}

func (w *fakeFollower) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { defer w.f.lock()(); w.f.changed.Broadcast() })
	defer stop()
	listed, unreadable := false, false
	seen, back := 0, w.f.restores()
	for ctx.Err() == nil {
		var batch []metadata.Event
		w.f.mu.Lock()
		err := w.f.broken[w.t.Kind]
		switch {
		case w.f.unserved(w.t):
			w.f.mu.Unlock()
			gone := fmt.Errorf("404 page not found: %w", metadata.ErrNotServed)
			if w.sink(ctx, []metadata.Event{{Kind: metadata.Unreadable, Err: gone}}) != nil {
				return nil
			}
			unreadable = true
			select {
			case <-ctx.Done():
			case <-time.After(4 * time.Second):
			}
			continue
		case err != nil && !unreadable:
			batch, unreadable = []metadata.Event{{Kind: metadata.Unreadable, Err: err}}, true
		case err == nil && (!listed || unreadable):
			batch, listed, unreadable = w.list(), true, false
			seen = w.f.version
		case err == nil && w.f.back != back:
			batch, back, listed = []metadata.Event{{Kind: metadata.WentBack}}, w.f.back, false
		case err == nil && seen < w.f.version:
			for _, p := range w.f.log {
				if p.version > seen && p.event.Object.Kind == w.t.Kind {
					batch = append(batch, p.event)
				}
			}
			seen = w.f.version
		default:
			w.f.changed.Wait()
		}
		w.f.mu.Unlock()
		if len(batch) > 0 && w.sink(ctx, batch) != nil {
			return nil
		}
		w.f.mu.Lock()
		if w.sent != seen {
			w.sent = seen
			w.f.changed.Broadcast()
		}
		w.f.mu.Unlock()
	}
	return nil
}

// unserved reports whether a path is unknown; mu is held.
func (f *fake) unserved(t gc.Type) bool {
	return len(f.types) > 0 && !slices.ContainsFunc(f.types, func(s gc.Type) bool { return s.APIVersion == t.APIVersion && s.Resource == t.Resource }) &&
		f.partial[t.APIVersion] == nil && !f.older
}

func (f *fake) restores() int { defer f.lock()(); return f.back }

func (w *fakeFollower) list() []metadata.Event {
	batch := []metadata.Event{{Kind: metadata.Listing}}
	for _, o := range w.f.objects {
		if o.Kind == w.t.Kind {
			batch = append(batch, metadata.Event{Kind: metadata.Observed, Object: *o, Fields: w.f.fields[o.UID]})
		}
	}
	return append(batch, metadata.Event{Kind: metadata.Synced})
}

func (w *fakeFollower) CatchUp(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { defer w.f.lock()(); w.f.changed.Broadcast() })
	defer stop()
	defer w.f.lock()()
	w.f.catchUps++
	for want := w.f.version; w.sent < want || w.f.stuck == w.t.Kind; {
		if err := w.f.broken[w.t.Kind]; err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.f.changed.Wait()
	}
	return w.f.broken[w.t.Kind]
}
