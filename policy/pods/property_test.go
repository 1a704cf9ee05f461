package pods_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/pods"
)

// history is a random one of a cluster, which a collector and the oracle observe.
type history struct {
	*rapid.T
	c       *pods.Collector
	o       *oracle
	now     time.Time
	version int
	pods    map[string]*pod // by UID: as they are
	nodes   map[string]pods.Node
	lives   map[string]int // of nodes
	silent  map[string]bool
	flying  []gc.Action
	sent    map[uint64]time.Time
	sentAt  map[uint64]int // by ID: the version of all then
	late    int
	asked   map[string]string // by UID: the version that was asked about last
	// by UID: until then the API server may be about to remove it by itself
	vanishing map[string]time.Time
}

var places = rapid.SampledFrom([]string{"", "n0", "n1", "n2", "n3", "n4", "n5"})

func begin(t *rapid.T) *history {
	config := drawConfig(t)
	h := &history{T: t, c: pods.New(config), o: newOracle(config), now: noon, pods: map[string]*pod{}, nodes: map[string]pods.Node{},
		lives: map[string]int{}, silent: map[string]bool{}, sent: map[uint64]time.Time{}, sentAt: map[uint64]int{}, asked: map[string]string{}, vanishing: map[string]time.Time{}}
	for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
		h.nodes[fmt.Sprint("n", i)] = ready
	}
	h.tick(0)
	return h
}

func drawConfig(t *rapid.T) pods.Config {
	limits := func(of string) pods.Limits {
		return pods.Limits{PerNamespace: rapid.IntRange(0, 3).Draw(t, of+" per namespace"), PerOwner: rapid.IntRange(0, 2).Draw(t, of+" per owner"),
			After: time.Duration(rapid.SampledFrom([]int{0, 0, 60, 3600}).Draw(t, of+" after")) * time.Second}
	}
	return pods.Config{
		Namespaces: rapid.SampledFrom([]gc.Patterns{nil, nil, {"a"}}).Draw(t, "namespaces"),
		Excluded:   rapid.SampledFrom([]gc.Patterns{nil, nil, nil, {"b"}}).Draw(t, "excluded"),
		Keep:       rapid.SampledFrom([]int{-1, 1, 2, 5}).Draw(t, "keep"),
		Succeeded:  limits("succeeded"), Failed: limits("failed"),
		Quarantine: 40 * time.Second, MaxShare: rapid.SampledFrom([]float64{0.15, 0.3, 0.5, 1}).Draw(t, "share"),
	}
}

func (h *history) tick(d time.Duration) {
	h.now = h.now.Add(d)
	h.o.now = h.now
	h.c.Ready(h.now, 0) // it has no clock
}

// change draws what a Pod is from now on, and reports it.
func (h *history) change(p *pod) {
	h.version++
	p.ResourceVersion = fmt.Sprint(h.version)
	p.Phase = rapid.SampledFrom([]string{"Pending", "Running", "Succeeded", "Failed", "Unknown", "Odd"}).Draw(h.T, "phase")
	if p.Node == "" || rapid.IntRange(0, 9).Draw(h.T, "moves") == 0 {
		p.Node = places.Draw(h.T, "node")
	}
	p.Ended = time.Time{}
	if over(p) && rapid.Bool().Draw(h.T, "has an end time") {
		p.Ended = h.now.Add(time.Duration(rapid.IntRange(-3600, 3600).Draw(h.T, "ended")) * time.Second)
	}
	p.Evicted = p.Phase == "Failed" && rapid.Bool().Draw(h.T, "evicted")
	p.Terminating = rapid.IntRange(0, 2).Draw(h.T, "terminating") == 0
	p.NoGrace = p.Terminating && rapid.Bool().Draw(h.T, "by force")
	p.Finalizers = rapid.SampledFrom([][]string{nil, nil, {"f"}}).Draw(h.T, "finalizers")
	h.observe(p)
}

func (h *history) observe(p *pod) {
	if !h.silent["Pod"] {
		if observed := h.o.pods[p.UID]; observed == nil || observed.ResourceVersion != p.ResourceVersion {
			if delete(h.vanishing, p.UID); p.Terminating && p.NoGrace && len(p.Finalizers) == 0 {
				h.vanishing[p.UID] = h.now.Add(30 * time.Second)
			}
		}
		h.c.Observe(h.now, podType, p.Object, p.Pod)
		h.o.observePod(*p)
	}
}

func (h *history) gone(p *pod) {
	delete(h.pods, p.UID)
	if !h.silent["Pod"] {
		h.c.Forget(h.now, podType, p.Object)
		delete(h.o.pods, p.UID)
		h.o.update()
	}
}

func (h *history) nodeObject(name string) gc.Object {
	return gc.Object{APIVersion: "v1", Kind: "Node", Name: name, UID: uuid(fmt.Sprint(name, h.lives[name]))}
}

// setNode, or take it away.
func (h *history) setNode(name string, n *pods.Node) {
	o := h.nodeObject(name)
	if n == nil {
		h.lives[name]++
		delete(h.nodes, name)
	} else {
		h.nodes[name] = *n
	}
	switch {
	case h.silent["Node"]:
		return
	case n == nil:
		h.c.Forget(h.now, nodeType, o)
		delete(h.o.nodes, name)
		h.o.update()
	default:
		h.c.Observe(h.now, nodeType, o, *n)
		h.o.observeNode(name, *n)
	}
	h.o.update()
}

// list all of a type from what is there; nothing is reported in between.
func (h *history) list(t gc.Type) {
	h.silent[t.Kind] = false
	h.c.Listing(h.now, t)
	if t.Kind == "Pod" {
		h.o.podsRead = false
		h.check("in a list")
		for _, p := range h.pods {
			h.observe(p)
		}
		maps.DeleteFunc(h.o.pods, func(uid string, _ *pod) bool { return h.pods[uid] == nil })
		h.o.podsRead = true
	} else {
		h.o.nodesRead = false
		h.o.update()
		h.check("in a list")
		for name, n := range h.nodes {
			h.c.Observe(h.now, t, h.nodeObject(name), n)
			h.o.observeNode(name, n)
		}
		h.o.nodes, h.o.nodesRead = maps.Clone(h.nodes), true
	}
	h.c.Synced(h.now, t)
	h.o.update()
}

func (h *history) unreadable(t gc.Type) {
	h.silent[t.Kind] = true
	if t.Kind == "Pod" {
		h.o.podsRead = false
	} else {
		h.o.nodesRead = false
	}
	h.o.update()
	h.c.Unreadable(h.now, t)
}

// forget is what Restored and a restart do.
func (h *history) forget(restart bool) {
	config := h.o.config
	if h.o = newOracle(config); restart {
		h.c, h.flying = pods.New(config), nil
	} else {
		h.c.Restored(h.now)
		h.late = h.version // what is on its way since before may be asked for again
		h.version++
	}
	h.o.now = h.now
	clear(h.asked)
	h.silent["Pod"], h.silent["Node"] = true, true
}

// check that both decide the same for all Pods.
func (h *history) check(when string) {
	h.age()
	for uid, p := range h.o.pods {
		f, known := h.c.Explain(gc.Coordinates{Kind: "Pod", UID: uid})
		if want := h.o.verdict(p); !known || goes(f.Reason) != (want != "") || want != "" && f.Reason != want {
			h.Fatalf("%s: %s on %s is %q (%v), not %q: %+v", when, p.Name, p.Node, f.Reason, known, want, p)
		}
	}
	for i, a := range h.flying { // what was decided before stays as it was
		if a.Verb != gc.Verify && h.sentAt[a.ID] > h.late && slices.ContainsFunc(h.flying[:i], func(b gc.Action) bool { return b.Object == a.Object && h.sentAt[b.ID] > h.late }) {
			h.Fatalf("%v is asked for twice", a)
		}
	}
}

// age has the oracle forget what is too old to be believed, if the collector did.
func (h *history) age() {
	for name, at := range h.o.absentAt {
		f, _ := h.c.Explain(gc.Coordinates{Kind: "Node", Name: name})
		if f.Reason == pods.NodeMissing && h.now.After(at.Add(h.o.config.Quarantine)) {
			delete(h.o.absentAt, name)
		}
	}
}

func goes(r gc.Reason) bool {
	return slices.Contains([]gc.Reason{pods.OverLimit, pods.OverNamespaceLimit, pods.OverOwnerLimit, pods.TimeUp, pods.NodeGone, pods.OutOfService, pods.NeverScheduled}, r)
}

// ready has the collector ask, and judges what it asks for.
func (h *history) ready(most int) {
	actions := h.c.Ready(h.now, most)
	h.age()
	for _, a := range actions {
		h.flying = append(h.flying, a)
		h.sent[a.ID], h.sentAt[a.ID] = h.now, h.version
		if a.Verb == gc.Verify {
			since, lost := h.o.since[a.Object.Name]
			if absent, read := h.o.absentAt[a.Object.Name]; !lost || h.o.held(a.Object.Name) || h.now.Before(since.Add(40*time.Second)) || read && h.now.Before(absent.Add(40*time.Second)) {
				h.Fatalf("%s is read: lost %v since %v, held %v, counts %v, read at %v", a.Object.Name, lost, since, h.o.held(a.Object.Name), h.o.counts(a.Object.Name), absent)
			}
			continue
		}
		p := h.o.pods[a.Object.UID]
		if p == nil || h.o.verdict(p) != a.Reason || (a.Verb == gc.FailPod) == over(p) || a.Verb == gc.Delete && !a.NoGrace || a.ResourceVersion != p.ResourceVersion {
			h.Fatalf("%+v is asked for of %+v", a, p)
		}
		if at := h.o.absentAt[p.Node]; a.Reason == pods.NodeGone && h.now.After(at.Add(40*time.Second)) {
			h.Fatalf("%s goes by an answer of %v", p.Name, at)
		}
		h.asked[p.UID] = p.ResourceVersion
	}
	h.check("after Ready")
	if len(actions) == most {
		return
	}
	for uid, p := range h.o.pods {
		if h.o.verdict(p) != "" && h.asked[uid] != p.ResourceVersion && !h.now.Before(h.vanishing[uid]) && !slices.ContainsFunc(h.flying, func(a gc.Action) bool { return a.Object.UID == uid }) {
			h.Fatalf("%s is to go (%s), and is not asked for", p.Name, h.o.verdict(p))
		}
	}
}
