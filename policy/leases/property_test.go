package leases_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/gc/gctest"
	"github.com/ebb-agent/ebb/policy/leases"
)

var (
	leaseType = gc.Type{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Resource: "leases", Namespaced: true}
	nodeType  = gc.Type{APIVersion: "v1", Kind: "Node", Resource: "nodes"}
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

// oracle knows when what happened, and judges by that.
type oracle struct {
	*gctest.World
	c *leases.Collector
	t *rapid.T

	quarantine time.Duration
	ci         time.Duration // for elections in ci-*
	abandoned  bool          // these are deleted
	own        string

	nodes     map[string]string // UIDs on the server, by name
	observed  map[string]string // names of observed Nodes, by UID
	listed    map[string]bool   // UIDs; nil: no list of Nodes is on its way
	known     time.Time         // since then, Nodes are; zero: they are not
	left      map[string]time.Time
	stood     map[string]time.Time // by the Lease's UID: a live read found the Node
	notFound  map[string]time.Time // the same: one that began then did not
	elections map[string]bool      // UIDs
	written   map[string]time.Time // the last time, by the Lease's UID
	made      map[string]string    // names of Leases
	next      int
}

func ceil(at time.Time) time.Time {
	if at.Nanosecond() == 0 {
		return at
	}
	return at.Truncate(time.Second).Add(time.Second)
}

func (o *oracle) there(node string) bool {
	return slices.Contains(slices.Collect(maps.Values(o.observed)), node)
}

// missing is the last moment at which something began that must hold for a Node to be
// missing.
func (o *oracle) missing(l string) time.Time {
	var last time.Time
	for _, at := range []time.Time{o.First(l), o.known, o.left[o.made[l]], o.stood[l]} {
		if at.After(last) {
			last = at
		}
	}
	return ceil(last)
}

func (o *oracle) judge(l gctest.Object, now time.Time, current bool) (gc.Reason, time.Time) {
	lease, never := l.Fields.(leases.Lease), time.Time{}
	switch {
	case l.Terminating:
		return "terminating", never
	case l.Namespace+"/"+l.Name == o.own:
		return "own_lease", never
	case lease.Identity:
		return "apiserver_identity", never
	case l.Namespace == "ci-1":
		if o.ci > 0 && o.abandoned && !lease.Expires.IsZero() && lease.Holder != "-not-a-pod-" {
			if !current {
				return "type_not_read", never
			}
			from := lease.Expires
			if lived := ceil(o.stood[l.UID]); lived.After(from) {
				from = lived
			}
			return "election_abandoned", from.Add(o.ci)
		}
		if o.ci > 0 && !lease.Expires.IsZero() && now.After(lease.Expires.Add(o.ci)) {
			return "election_expired", never
		}
		return "election", never
	case l.Namespace != "kube-node-lease":
		return "not_selected", never
	case len(l.Owners) > 0:
		return "owned", never
	case lease.Holder != "" && lease.Holder != l.Name:
		return "other_holder", never
	case o.there(l.Name):
		return "node_exists", never
	case o.known.IsZero():
		return "nodes_not_read", never
	case !current:
		return "type_not_read", never
	}
	from := o.missing(l.UID)
	for _, life := range []time.Time{lease.Expires, ceil(o.written[l.UID])} {
		if life.After(from) {
			from = life
		}
	}
	return "node_gone", from.Add(o.quarantine)
}

// act has the Node read first, unless that was done within half a minute.
func (o *oracle) act(l gctest.Object, a gc.Action) gc.Action {
	if l.Namespace == "ci-1" {
		if holder := l.Fields.(leases.Lease).Holder; holder != "" {
			a.Owner = gc.Coordinates{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespace: "ci-1", Name: holder}
			if at, read := o.notFound[l.UID]; !read || o.Now.Sub(ceil(at)) > 30*time.Second {
				return gc.Action{Verb: gc.Verify, Object: a.Owner, Reason: a.Reason}
			}
		}
		return a
	}
	node := gc.Coordinates{APIVersion: "v1", Kind: "Node", Resource: "nodes", Name: l.Name}
	a.Owner = node
	if at, read := o.notFound[l.UID]; !read || o.Now.Sub(ceil(at)) > 30*time.Second || !ceil(at).After(o.missing(l.UID)) {
		return gc.Action{Verb: gc.Verify, Object: node, Reason: a.Reason}
	}
	return a
}

func (o *oracle) read(a gc.Action) gc.Answer {
	if a.Object.Kind == "Pod" {
		return gc.Answer{State: []gc.State{gc.Exists, gc.Absent}[pick(o.t, 2)]}
	}
	if uid, is := o.nodes[a.Object.Name]; is {
		return gc.Answer{State: gc.Exists, Object: gc.Object{APIVersion: "v1", Kind: "Node", Name: a.Object.Name, UID: uid}}
	}
	return gc.Answer{State: gc.Absent}
}

func (o *oracle) answered(l string, sent time.Time, overtaken bool, a gc.Answer) {
	delete(o.notFound, l)
	if o.elections[l] && overtaken {
		return // its holder is another one: each change of an election has a holder of its own
	}
	if a.State == gc.Exists {
		o.stood[l] = o.Now
	} else {
		o.notFound[l] = sent
	}
}

// step has something happen to Nodes.
func (o *oracle) step() {
	name := fmt.Sprint("o-", pick(o.t, 6))
	watched := !o.known.IsZero() && o.listed == nil
	switch pick(o.t, 8) {
	case 0: // it comes
		if o.nodes[name] == "" {
			o.next++
			o.nodes[name] = fmt.Sprint("node-", o.next)
			if watched {
				o.observe(name)
			}
		}
	case 1, 2: // it goes
		uid := o.nodes[name]
		if delete(o.nodes, name); watched && uid != "" {
			o.c.Forget(o.Now, nodeType, gc.Object{Name: name, UID: uid})
			o.gone(uid)
		}
	case 3:
		o.c.Unreadable(o.Now, nodeType)
		o.known = time.Time{}
		o.listed = nil
	default:
		o.list()
	}
}

func (o *oracle) list() {
	switch {
	case o.listed == nil && !o.known.IsZero() && pick(o.t, 16) > 0: // they are watched
	case o.listed == nil:
		o.listed = map[string]bool{}
		o.c.Listing(o.Now, nodeType)
		o.known = time.Time{}
		for _, name := range slices.Sorted(maps.Keys(o.nodes)) {
			o.observe(name)
			o.listed[o.nodes[name]] = true
		}
	default:
		o.known = o.Now
		o.c.Synced(o.Now, nodeType)
		for _, uid := range slices.Sorted(maps.Keys(o.observed)) {
			if !o.listed[uid] {
				o.gone(uid)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(o.nodes)) {
			if uid := o.nodes[name]; !o.listed[uid] {
				o.observe(name)
			}
		}
		listed := o.listed
		o.listed = nil
		for uid := range listed {
			if name := o.observed[uid]; o.nodes[name] != uid {
				o.c.Forget(o.Now, nodeType, gc.Object{Name: name, UID: uid})
				o.gone(uid)
			}
		}
	}
}

func (o *oracle) observe(name string) {
	uid := o.nodes[name]
	o.observed[uid] = name
	o.c.Observe(o.Now, nodeType, gc.Object{APIVersion: "v1", Kind: "Node", Name: name, UID: uid, ResourceVersion: "1"}, nil)
}

func (o *oracle) gone(uid string) {
	o.left[o.observed[uid]] = o.Now
	delete(o.observed, uid)
}

func (o *oracle) configure(now time.Time) {
	o.quarantine = []time.Duration{time.Second, 10 * time.Second, time.Minute}[pick(o.t, 3)]
	o.ci = []time.Duration{-1, 0, time.Minute}[pick(o.t, 3)]
	o.abandoned = pick(o.t, 2) == 0
	o.own = []string{"", "kube-node-lease/o-1", "ci-1/o-1"}[pick(o.t, 3)]
	o.c.Configure(now, leases.Config{
		Quarantine: o.quarantine, Own: []string{o.own},
		Elections: []leases.Election{{Namespaces: gc.Patterns{"ci-*"}, Names: gc.Patterns{"o-*"}, After: o.ci, Delete: o.abandoned}},
	})
}

func (o *oracle) make(l *gctest.Object, now time.Time) {
	o.next++
	lease := leases.Lease{Holder: []string{l.Name, l.Name, l.Name, l.Name, "", "", "-not-a-pod-", "another"}[pick(o.t, 8)], Identity: pick(o.t, 8) == 0}
	if l.Namespace == "ci-1" && lease.Holder != "" && lease.Holder != "-not-a-pod-" {
		lease.Holder = fmt.Sprint("pod-", o.next) // each its own, so that reads can be distinguished
	}
	if pick(o.t, 4) > 0 {
		lease.Expires = now.Truncate(time.Second).Add(time.Duration(pick(o.t, 200)-180) * time.Second)
	}
	if l.Owners = nil; pick(o.t, 8) == 0 {
		l.Owners = []gc.Reference{{APIVersion: "v1", Kind: "Node", Name: l.Name, UID: "n"}}
	}
	l.Terminating = l.Terminating || pick(o.t, 16) == 0
	l.Fields, o.made[l.UID], o.elections[l.UID] = lease, l.Name, l.Namespace == "ci-1"
}

// TestHistories has random histories of Leases and Nodes judged from scratch at each step.
func TestHistories(t *testing.T) {
	deleted := 0
	gctest.Histories(t, func(t *rapid.T) {
		o := &oracle{
			t: t, c: leases.New(leases.Config{}), nodes: map[string]string{}, observed: map[string]string{},
			left: map[string]time.Time{}, stood: map[string]time.Time{}, notFound: map[string]time.Time{}, written: map[string]time.Time{}, made: map[string]string{}, elections: map[string]bool{},
		}
		o.World = &gctest.World{
			Collector: o.c, Name: "leases", Type: leaseType, Policy: gc.Background, Pick: func(n int) int { return pick(t, n) }, Fatalf: t.Fatalf, Now: time.Unix(1e9, 0),
			Namespaces: []string{"kube-node-lease", "kube-node-lease", "kube-node-lease", "ci-1", "default"},
			Make:       o.make, Configure: o.configure, Oracle: o.judge,
		}
		o.Beside = gctest.Beside{
			OneName: "kube-node-lease", Step: o.step, Act: o.act, Read: o.read,
			Kept: func() int { // one of each name
				return len(slices.Compact(slices.Sorted(maps.Values(o.observed))))
			},
			Changed: func(uid string) {
				if delete(o.notFound, uid); !o.Known(uid) {
					delete(o.stood, uid) // it may be seen again at this very moment
					delete(o.written, uid)
				} else if o.First(uid).Before(o.Now) {
					o.written[uid] = o.Now
				}
			},
			Answered: o.answered,
			Restored: func() {
				clear(o.observed)
				o.known = time.Time{}
				o.listed = nil
			},
		}
		o.configure(o.Now)
		for range 600 {
			o.Step()
		}
		deleted += o.Deleted
	})
	if t.Logf("%d were deleted", deleted); deleted == 0 {
		t.Error("nothing was ever deleted")
	}
}
