// Package apitest tests what the controller relies on of the API server, as runtime/kube/metadata
// gives it. Fakes in the controller's tests must pass it, too.
package apitest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// API are the methods that the suite asks for.
type API interface {
	Discover(ctx context.Context) (metadata.Discovery, error)
	Read(ctx context.Context, o gc.Coordinates, namespaced bool) (gc.Answer, error)
	Do(ctx context.Context, a gc.Action, namespaced bool) metadata.Outcome
	ListFields(ctx context.Context, t gc.Type, s metadata.Selection, fields metadata.Fields, take func(gc.Object, any) error) error
	ReadFields(ctx context.Context, o gc.Coordinates, namespaced bool, fields metadata.Fields) (any, error)
}

// Follower follows a type.
type Follower interface {
	Run(ctx context.Context) error
	CatchUp(ctx context.Context) error
}

// Server is an API server that serves ConfigMaps, and its other clients. Its functions end the test
// if they fail.
type Server struct {
	API
	Follow func(gc.Type, metadata.Sink) Follower
	// Create makes a ConfigMap in the namespace default.
	Create func(t *testing.T, name string, owners []gc.Reference, finalizers ...string) (uid string)
	// Touch changes a field of a ConfigMap that the controller does not read.
	Touch func(t *testing.T, name string)
	// Delete deletes a ConfigMap as a user does.
	Delete func(t *testing.T, name string, p gc.Policy)
}

var (
	configMaps = gc.Type{APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespaced: true}
	unserved   = gc.Type{APIVersion: "example.com/v1", Kind: "Nothing", Resource: "nothings", Namespaced: true}
)

const patience = 3 * time.Minute

// Conformance runs the suite.
func Conformance(t *testing.T, s Server) {
	t.Run("Discover", s.testDiscover)
	t.Run("Read", s.testRead)
	t.Run("Preconditions", s.testPreconditions)
	t.Run("Patches", s.testPatches)
	t.Run("Policies", s.testPolicies)
	t.Run("Lists", s.testLists)
	t.Run("Follow", s.testFollow)
	t.Run("NotServed", s.testNotServed)
}

func at(typ gc.Type, name, uid string) gc.Coordinates {
	return gc.Coordinates{APIVersion: typ.APIVersion, Kind: typ.Kind, Resource: typ.Resource, Namespace: "default", Name: name, UID: uid}
}

func (s Server) read(t *testing.T, name string, want gc.State) gc.Object {
	t.Helper()
	a, err := s.Read(t.Context(), at(configMaps, name, ""), true)
	if err != nil || a.State != want {
		t.Fatalf("%s: %+v, %v", name, a, err)
	}
	return a.Object
}

func (s Server) do(t *testing.T, what string, a gc.Action, want gc.Result) *gc.Object {
	t.Helper()
	out := s.Do(t.Context(), a, true)
	if out.Result != want {
		t.Fatalf("%s: %v (%v), want %v", what, out.Result, out.Err, want)
	}
	return out.Object
}

func (s Server) testDiscover(t *testing.T) {
	d, err := s.Discover(t.Context())
	if err != nil || len(d.Partial) > 0 {
		t.Fatalf("partial %v, %v", d.Partial, err)
	}
	if !slices.Contains(d.Types, configMaps) || slices.ContainsFunc(d.Types, func(t gc.Type) bool { return t.Kind == unserved.Kind }) {
		t.Errorf("types are %+v", d.Types)
	}
}

// A read by name returns the object with its own UID, or proof that there is none.
func (s Server) testRead(t *testing.T) {
	owners := []gc.Reference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "uid-owner", Block: true}}
	uid := s.Create(t, "read", owners, "example.com/a")
	o := s.read(t, "read", gc.Exists)
	want := gc.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "read", UID: uid,
		ResourceVersion: o.ResourceVersion, Owners: owners, Finalizers: []string{"example.com/a"}}
	if diff := cmp.Diff(want, o); diff != "" || o.ResourceVersion == "" {
		t.Errorf("read: %s", diff)
	}
	s.Delete(t, "read", gc.Background)
	if held := s.read(t, "read", gc.Exists); !held.Terminating || held.UID != uid || version(t, held) <= version(t, o) {
		t.Errorf("deleted, and held: %+v", held)
	}
	s.do(t, "let it go", gc.Action{Verb: gc.RemoveFinalizer, Object: at(configMaps, "read", uid), Finalizer: "example.com/a"}, gc.Done)
	s.read(t, "read", gc.Absent)
	if again := s.Create(t, "read", nil); again == uid || s.read(t, "read", gc.Exists).UID != again {
		t.Errorf("made anew it is %s, and was %s", again, uid)
	}
	if a, err := s.Read(t.Context(), at(unserved, "read", ""), true); err == nil || a.State != gc.Unknown {
		t.Errorf("of a type that is not served: %+v, %v", a, err)
	}
}

// An action that was decided on another object, or on another version of it, is refused.
func (s Server) testPreconditions(t *testing.T) {
	uid := s.Create(t, "strict", nil, "example.com/a", gc.OrphanFinalizer)
	old := s.read(t, "strict", gc.Exists).ResourceVersion
	s.Touch(t, "strict")
	o := s.read(t, "strict", gc.Exists)
	if o.ResourceVersion == old {
		t.Errorf("changed, and still of the version %s", old)
	}
	x, other := at(configMaps, "strict", uid), at(configMaps, "strict", "00000000-0000-0000-0000-000000000000")
	for what, a := range map[string]gc.Action{
		"delete another":         {Verb: gc.Delete, Object: other, Policy: gc.Background, ResourceVersion: o.ResourceVersion},
		"delete what it was":     {Verb: gc.Delete, Object: x, Policy: gc.Background, ResourceVersion: old},
		"patch another":          {Verb: gc.RemoveFinalizer, Object: other, Finalizer: "example.com/a"},
		"a finalizer elsewhere":  {Verb: gc.RemoveFinalizer, Object: x, Finalizer: "example.com/a", Index: 1},
		"a finalizer beyond":     {Verb: gc.RemoveFinalizer, Object: x, Finalizer: "example.com/a", Index: 7},
		"orphans of what it was": {Verb: gc.RemoveFinalizer, Object: x, Finalizer: gc.OrphanFinalizer, Index: 1, ResourceVersion: old},
	} {
		s.do(t, what, a, gc.Conflict)
	}
	if now := s.read(t, "strict", gc.Exists); !cmp.Equal(now, o) {
		t.Errorf("refused, and changed: %s", cmp.Diff(o, now))
	}
	gone := at(configMaps, "never-there", uid)
	for what, a := range map[string]gc.Action{
		"delete what is not there": {Verb: gc.Delete, Object: gone, Policy: gc.Background, ResourceVersion: "1"},
		"patch what is not there":  {Verb: gc.RemoveFinalizer, Object: gone, Finalizer: "example.com/a"},
	} {
		s.do(t, what, a, gc.Gone)
	}
}

// A patch changes what is at the given index, and is answered with the object.
func (s Server) testPatches(t *testing.T) {
	var owners []gc.Reference
	var places []gc.Position
	for i, name := range []string{"a", "b", "c"} {
		r := gc.Reference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: "uid-" + name, Block: true}
		owners, places = append(owners, r), append(places, gc.Position{Index: i, Reference: r})
	}
	uid := s.Create(t, "patched", owners, "example.com/a", "example.com/b")
	x := at(configMaps, "patched", uid)
	misplaced, beyond := places[0], places[0]
	misplaced.Index, beyond.Index = 1, 9
	for _, p := range []gc.Position{misplaced, beyond} {
		s.do(t, "an owner elsewhere", gc.Action{Verb: gc.RemoveReferences, Object: x, Refs: []gc.Position{p}}, gc.Conflict)
		s.do(t, "unblock an owner elsewhere", gc.Action{Verb: gc.Unblock, Object: x, Refs: []gc.Position{p}}, gc.Conflict)
	}
	want := s.read(t, "patched", gc.Exists)
	want.Owners = slices.Clone(want.Owners)
	check := func(what string, got *gc.Object) {
		t.Helper()
		if got == nil || version(t, *got) <= version(t, want) {
			t.Fatalf("%s: the answer is %+v, and it was %+v", what, got, want)
		}
		want.ResourceVersion = got.ResourceVersion
		for _, o := range []gc.Object{*got, s.read(t, "patched", gc.Exists)} {
			if diff := cmp.Diff(want, o); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
	}
	want.Owners[1].Block = false
	check("unblock", s.do(t, "unblock", gc.Action{Verb: gc.Unblock, Object: x, Refs: places[1:2]}, gc.Done))
	want.Owners = want.Owners[1:2]
	check("remove", s.do(t, "remove", gc.Action{Verb: gc.RemoveReferences, Object: x, Refs: []gc.Position{places[0], places[2]}}, gc.Done))
	want.Finalizers = want.Finalizers[:1]
	check("finalizer", s.do(t, "finalizer", gc.Action{Verb: gc.RemoveFinalizer, Object: x, Finalizer: "example.com/b", Index: 1}, gc.Done))
}

// After a deletion, the object has the finalizer of the policy. With Background, it is gone.
func (s Server) testPolicies(t *testing.T) {
	for p, finalizer := range map[gc.Policy]string{gc.Foreground: gc.ForegroundFinalizer, gc.Orphan: gc.OrphanFinalizer, gc.Background: ""} {
		for _, who := range []string{"people", "the controller"} {
			t.Run(string(p)+" by "+who, func(t *testing.T) {
				name := "policy-" + string(p[0]+'a'-'A') + who[:1]
				uid := s.Create(t, name, nil)
				if who == "people" {
					s.Delete(t, name, p)
				} else {
					o := s.read(t, name, gc.Exists)
					s.do(t, "delete", gc.Action{Verb: gc.Delete, Object: at(configMaps, name, uid), Policy: p, ResourceVersion: o.ResourceVersion}, gc.Done)
				}
				if finalizer == "" {
					s.read(t, name, gc.Absent)
					return
				}
				o := s.read(t, name, gc.Exists)
				if !o.Terminating || !slices.Equal(o.Finalizers, []string{finalizer}) {
					t.Errorf("deleted: %+v", o)
				}
				s.do(t, "let it go", gc.Action{Verb: gc.RemoveFinalizer, Object: at(configMaps, name, uid), Finalizer: finalizer, ResourceVersion: o.ResourceVersion}, gc.Done)
				s.read(t, name, gc.Absent)
			})
		}
	}
}

func (s Server) testLists(t *testing.T) {
	uid := s.Create(t, "listed", nil)
	for in, want := range map[string]int{"default": 1, "": 1, "kube-system": 0} {
		found := 0
		err := s.ListFields(t.Context(), configMaps, metadata.Selection{Namespace: in}, nil, func(o gc.Object, _ any) error {
			if o.Kind != "ConfigMap" || in != "" && o.Namespace != in {
				t.Errorf("in the list of %q: %+v", in, o)
			}
			if o.UID == uid {
				found++
			}
			return nil
		})
		if err != nil || found != want {
			t.Errorf("in %q it is there %d times, %v", in, found, err)
		}
	}
	nothing := func([]byte) (any, error) { return nil, nil }
	if _, err := s.ReadFields(t.Context(), at(configMaps, "listed", uid), true, nothing); err != nil {
		t.Error(err)
	}
	if _, err := s.ReadFields(t.Context(), at(configMaps, "never-there", uid), true, nothing); err == nil {
		t.Error("fields of what is not there were read")
	}
}

// reported collects the events of a follower.
type reported struct {
	mu      sync.Mutex
	events  []metadata.Event
	changed chan struct{} // capacity 1
}

func (d *reported) sink(_ context.Context, batch []metadata.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, batch...)
	select {
	case d.changed <- struct{}{}:
	default:
	}
	return nil
}

// of returns the last event of an object, and the number of its events.
func (d *reported) of(uid string) (last metadata.Event, times int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Object.UID == uid {
			last, times = e, times+1
		}
	}
	return last, times
}

// follow follows a type until the test ends.
func (s Server) follow(t *testing.T, typ gc.Type) (*reported, Follower) {
	t.Helper()
	d := &reported{changed: make(chan struct{}, 1)}
	f := s.Follow(typ, d.sink)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	return d, f
}

// A list comes first, then changes. After CatchUp, all that had happened before has been reported.
func (s Server) testFollow(t *testing.T) {
	stays, goes := s.Create(t, "stays", nil), s.Create(t, "goes", nil)
	d, f := s.follow(t, configMaps)
	catchUp := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := f.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
	}
	catchUp()
	first, _ := d.of(stays)
	if _, n := d.of(goes); n == 0 || first.Kind != metadata.Observed {
		t.Fatalf("the list has %+v", first)
	}
	d.mu.Lock()
	synced := slices.IndexFunc(d.events, func(e metadata.Event) bool { return e.Kind == metadata.Synced })
	if d.events[0].Kind != metadata.Listing || synced < 3 {
		t.Errorf("the list begins with %v, and is complete as event %d", d.events[0].Kind, synced)
	}
	d.mu.Unlock()

	s.Touch(t, "stays")
	comes := s.Create(t, "comes", nil)
	s.Delete(t, "goes", gc.Background)
	s.Delete(t, "comes", gc.Foreground)
	catchUp()
	if last, _ := d.of(stays); last.Kind != metadata.Observed || version(t, last.Object) <= version(t, first.Object) {
		t.Errorf("changed: %+v", last)
	}
	if last, _ := d.of(goes); last.Kind != metadata.Deleted {
		t.Errorf("deleted: %+v", last)
	}
	last, _ := d.of(comes)
	if diff := cmp.Diff(s.read(t, "comes", gc.Exists), last.Object); last.Kind != metadata.Observed || diff != "" {
		t.Errorf("made and deleted, but held: %v: %s", last.Kind, diff)
	}
}

// A type that is not served is reported as Unreadable, with ErrNotServed: it may be gone.
func (s Server) testNotServed(t *testing.T) {
	d, _ := s.follow(t, unserved)
	select {
	case <-d.changed:
	case <-time.After(patience):
		t.Fatal("nothing is reported")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Kind == metadata.Unreadable && errors.Is(e.Err, metadata.ErrNotServed) {
			return
		}
	}
	t.Errorf("reported is %+v", d.events)
}

func version(t *testing.T, o gc.Object) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return n
}
