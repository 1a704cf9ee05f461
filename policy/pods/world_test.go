package pods_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/pods"
)

var (
	podType  = gc.Type{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true}
	nodeType = gc.Type{APIVersion: "v1", Kind: "Node", Resource: "nodes"}
	noon     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// pod is one as the API server has it.
type pod struct {
	gc.Object
	pods.Pod
}

// cluster is an API server's Pods and Nodes, with a collector that observes them.
type cluster struct {
	t       *testing.T
	c       *pods.Collector
	now     time.Time
	version int
	pods    map[string]*pod // by name
	nodes   map[string]pods.Node
	asked   []string // "verb name reason"
	reads   int
	unknown bool                 // live reads return no result
	refuse  map[string]gc.Result // what becomes of deletions of these
}

func newCluster(t *testing.T, config pods.Config) *cluster {
	w := &cluster{t: t, c: pods.New(config), now: noon, pods: map[string]*pod{}, nodes: map[string]pods.Node{}, refuse: map[string]gc.Result{}}
	return w
}

func uuid(name string) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", len(name), name)[:36] }

// add a Pod without reporting it.
func (w *cluster) add(name, node, phase string) *pod {
	w.version++
	p := &pod{
		gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: name, UID: uuid(name), ResourceVersion: fmt.Sprint(w.version)},
		pods.Pod{Phase: phase, Node: node, Created: noon.Add(time.Duration(w.version)*time.Second - 24*time.Hour)},
	}
	if phase == "Succeeded" || phase == "Failed" {
		p.Ended = p.Created.Add(time.Hour)
	}
	w.pods[name] = p
	return p
}

// see that p changed.
func (w *cluster) see(p *pod) {
	w.version++
	p.ResourceVersion = fmt.Sprint(w.version)
	w.c.Observe(w.now, podType, p.Object, p.Pod)
}

func (w *cluster) node(name string, n pods.Node) {
	w.nodes[name] = n
	w.c.Observe(w.now, nodeType, w.nodeObject(name), n)
}

func (w *cluster) nodeObject(name string) gc.Object {
	return gc.Object{APIVersion: "v1", Kind: "Node", Name: name, UID: uuid("node" + name), ResourceVersion: "1"}
}

func (w *cluster) loseNode(name string) {
	delete(w.nodes, name)
	w.c.Forget(w.now, nodeType, w.nodeObject(name))
}

func (w *cluster) listPods() {
	w.c.Listing(w.now, podType)
	for _, p := range w.pods {
		w.c.Observe(w.now, podType, p.Object, p.Pod)
	}
	w.c.Synced(w.now, podType)
}

func (w *cluster) listNodes() {
	w.c.Listing(w.now, nodeType)
	for name, n := range w.nodes {
		w.c.Observe(w.now, nodeType, w.nodeObject(name), n)
	}
	w.c.Synced(w.now, nodeType)
}

func (w *cluster) list() { w.listNodes(); w.listPods() }

// pass has time pass, and the collector do what it wants at each moment it names.
func (w *cluster) pass(d time.Duration) {
	w.t.Helper()
	until := w.now.Add(d)
	for range 1000 {
		w.run()
		next := w.c.Next()
		if next.IsZero() || next.After(until) {
			w.now = until
			w.run()
			return
		}
		w.now = next
	}
	w.t.Fatal("it never rests")
}

// run carries out what is asked for, until nothing is.
func (w *cluster) run() {
	w.t.Helper()
	for range 1000 {
		actions := w.c.Ready(w.now, 3)
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			w.do(a)
		}
	}
	w.t.Fatal("it asks without end")
}

func (w *cluster) do(a gc.Action) {
	w.t.Helper()
	if a.Collector != pods.Name || a.Object.Resource == "" || a.Reason == "" {
		w.t.Errorf("an incomplete action: %+v", a)
	}
	if a.Verb == gc.Verify {
		w.reads++
		w.c.Answered(w.now, w.now, a.ID, w.read(a.Object))
		return
	}
	w.asked = append(w.asked, fmt.Sprint(a.Verb, " ", a.Object.Name, " ", a.Reason))
	p := w.pods[a.Object.Name]
	switch {
	case w.refuse[a.Object.Name] != gc.Failed:
		w.c.Finished(w.now, a.ID, w.refuse[a.Object.Name])
	case p == nil || p.UID != a.Object.UID:
		w.c.Finished(w.now, a.ID, gc.Gone)
	case p.ResourceVersion != a.ResourceVersion:
		w.c.Finished(w.now, a.ID, gc.Conflict)
	case a.Verb == gc.FailPod:
		w.version++
		p.Phase, p.ResourceVersion = "Failed", fmt.Sprint(w.version)
		w.c.Patched(w.now, a.ID, p.Object)
		w.c.Finished(w.now, a.ID, gc.Done)
		w.c.Patched(w.now, a.ID, gc.Object{Name: p.Name, UID: p.UID, ResourceVersion: "0"}) // nobody waits for it
	case !a.NoGrace:
		w.t.Errorf("%s is given grace", a.Object.Name)
	case len(p.Finalizers) > 0:
		p.Terminating, p.NoGrace = true, true
		w.c.Finished(w.now, a.ID, gc.Done)
		w.see(p)
	default:
		delete(w.pods, p.Name)
		w.c.Finished(w.now, a.ID, gc.Done)
		w.c.Forget(w.now, podType, p.Object)
	}
}

func (w *cluster) read(o gc.Coordinates) gc.Answer {
	if o.UID != "" || o.Kind != "Node" {
		w.t.Errorf("%+v is read", o)
	}
	if w.unknown {
		return gc.Answer{}
	}
	if _, ok := w.nodes[o.Name]; ok {
		return gc.Answer{State: gc.Exists, Object: w.nodeObject(o.Name)}
	}
	return gc.Answer{State: gc.Absent}
}

func (w *cluster) explain(name string) gc.Finding {
	w.t.Helper()
	f, ok := w.c.Explain(gc.Coordinates{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: name, UID: uuid(name)})
	if !ok {
		w.t.Errorf("%s is not known", name)
	}
	return f
}

// want what was asked for since, in any order.
func (w *cluster) want(asked ...string) {
	w.t.Helper()
	slices.Sort(w.asked)
	slices.Sort(asked)
	if !slices.Equal(w.asked, asked) {
		w.t.Errorf("asked for %q, not %q", w.asked, asked)
	}
	w.asked = nil
}

func (w *cluster) wantReason(name string, want gc.Reason) {
	w.t.Helper()
	if got := w.explain(name).Reason; got != want {
		w.t.Errorf("%s: %s, not %s", name, got, want)
	}
}
