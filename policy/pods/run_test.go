package pods_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/pods"
)

// land an action that is on its way, or lose it.
func (h *history) land(i int, result gc.Result) {
	a := h.flying[i]
	h.flying = slices.Delete(h.flying, i, i+1)
	if a.Verb == gc.Verify {
		h.answer(a, result)
		return
	}
	p := h.pods[a.Object.UID]
	observed := h.o.pods[a.Object.UID]
	if observed != nil && (result == gc.TooMany || result == gc.Done && p == nil) {
		h.asked[observed.UID] = observed.ResourceVersion // not at once; not if it is gone and no watch has reported it
	}
	if observed != nil && result == gc.Forbidden && h.sentAt[a.ID] > h.late {
		h.o.refused[observed.UID] = observed.ResourceVersion
		h.asked[observed.UID] = observed.ResourceVersion // not at once
		defer h.o.update()
	}
	switch {
	case result != gc.Done:
		h.c.Finished(h.now, a.ID, result)
	case p == nil:
		h.c.Finished(h.now, a.ID, gc.Gone)
	case p.ResourceVersion != a.ResourceVersion:
		h.c.Finished(h.now, a.ID, gc.Conflict)
	case a.Verb == gc.FailPod:
		h.version++
		p.Phase, p.Ended, p.ResourceVersion = "Failed", h.now, fmt.Sprint(h.version)
		first := !h.silent["Pod"] && h.version%2 == 0 // its watch is
		if first {
			h.observe(p)
		}
		h.c.Patched(h.now, a.ID, p.Object)
		h.c.Finished(h.now, a.ID, gc.Done)
		if observed := h.o.pods[p.UID]; observed != nil && !first && observed.ResourceVersion == a.ResourceVersion && h.sentAt[a.ID] > h.late {
			h.o.observePod(*p)
		}
		h.observe(p)
	case len(p.Finalizers) > 0:
		h.version++
		p.Terminating, p.NoGrace, p.ResourceVersion = true, true, fmt.Sprint(h.version)
		h.c.Finished(h.now, a.ID, gc.Done)
		h.observe(p)
	default:
		h.c.Finished(h.now, a.ID, gc.Done)
		h.gone(p)
	}
}

func (h *history) answer(a gc.Action, result gc.Result) {
	name, asOf := a.Object.Name, h.sent[a.ID]
	_, there := h.nodes[name]
	switch {
	case result == gc.TooMany:
		h.c.Answered(h.now, asOf, a.ID, gc.Answer{State: gc.TooBusy})
	case result != gc.Done:
		h.c.Answered(h.now, asOf, a.ID, gc.Answer{})
	case there:
		h.c.Answered(h.now, asOf, a.ID, gc.Answer{State: gc.Exists, Object: h.nodeObject(name)})
		if _, lost := h.o.since[name]; lost {
			h.o.since[name] = h.now
			delete(h.o.absentAt, name)
		}
	default:
		h.c.Answered(h.now, asOf, a.ID, gc.Answer{State: gc.Absent})
		if since, lost := h.o.since[name]; lost && !asOf.Before(since.Add(40*time.Second)) {
			if h.o.absentAt[name] = asOf; asOf.After(h.o.latest[name]) {
				h.o.cover(name)
			}
		}
	}
}

// TestHistories: whatever happens in whatever order, what is asked for is what an oracle
// finds that looks at everything each time; and in the end it is gone.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := begin(t)
		h.list(nodeType)
		h.list(podType)
		born := 0
		some := func() *pod {
			if len(h.pods) == 0 {
				t.Skip("there is none")
			}
			return h.pods[rapid.SampledFrom(slices.Sorted(maps.Keys(h.pods))).Draw(t, "pod")]
		}
		either := rapid.SampledFrom([]gc.Type{podType, nodeType})
		t.Repeat(map[string]func(*rapid.T){
			"born": func(t *rapid.T) {
				born++
				p := &pod{Object: gc.Object{APIVersion: "v1", Kind: "Pod", Name: fmt.Sprint("p", born), UID: uuid(fmt.Sprint("p", born))}}
				p.Namespace = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace")
				p.Created = noon.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "created")) * time.Hour)
				if owner := rapid.SampledFrom([]string{"", "x", uuid("y")}).Draw(t, "owner"); owner != "" {
					owned(p, owner)
				}
				h.pods[p.UID] = p
				h.change(p)
			},
			"changes":    func(t *rapid.T) { h.change(some()) },
			"changes 2":  func(t *rapid.T) { h.change(some()) },
			"is deleted": func(t *rapid.T) { h.gone(some()) },
			"node": func(t *rapid.T) {
				name := places.Filter(func(s string) bool { return s != "" }).Draw(t, "name")
				n := rapid.SampledFrom([]*pods.Node{nil, nil, {}, {Ready: true}, {OutOfService: true}, {Ready: true, OutOfService: true}}).Draw(t, "node")
				if _, there := h.nodes[name]; n != nil || there {
					h.setNode(name, n)
				}
			},
			"time": func(t *rapid.T) {
				h.tick(time.Duration(rapid.SampledFrom([]int{1, 10, 39, 40, 41, 100, 4000}).Draw(t, "seconds")) * time.Second)
			},
			"ready":   func(t *rapid.T) { h.ready(rapid.SampledFrom([]int{1, 3, 100}).Draw(t, "most")) },
			"ready 2": func(t *rapid.T) { h.ready(100) },
			"lands": func(t *rapid.T) {
				if len(h.flying) == 0 {
					t.Skip("nothing is on its way")
				}
				h.land(rapid.IntRange(0, len(h.flying)-1).Draw(t, "which"), rapid.SampledFrom([]gc.Result{gc.Done, gc.Done, gc.Done, gc.Failed, gc.Withheld, gc.TooMany, gc.Deferred, gc.Forbidden, gc.Forbidden}).Draw(t, "result"))
			},
			"list":       func(t *rapid.T) { h.list(either.Draw(t, "type")) },
			"unreadable": func(t *rapid.T) { h.unreadable(either.Draw(t, "type")) },
			"forgets":    func(t *rapid.T) { h.forget(rapid.Bool().Draw(t, "restart")) },
			"confirm": func(t *rapid.T) {
				name := places.Draw(t, "name")
				held := h.o.held(name)
				if h.c.ConfirmLost(h.now, name) != held {
					t.Fatalf("%s: held %v", name, held)
				}
				h.o.confirmed[name] = held || h.o.confirmed[name]
				h.o.update()
			},
			"configure": func(t *rapid.T) {
				h.o.config = drawConfig(t)
				h.c.Configure(h.now, h.o.config)
				h.o.update()
			},
			"": func(t *rapid.T) { h.T = t; h.check("after a step") },
		})
		h.T = t
		h.settle()
	})
}

// settle has everything heard, seen and carried out, until there is nothing left to do.
func (h *history) settle() {
	h.list(nodeType)
	h.list(podType)
	h.c.Release(h.now)
	for range 300 {
		h.ready(100)
		for len(h.flying) > 0 {
			h.land(0, gc.Done)
			h.check("at the end")
		}
		next := h.c.Next()
		if next.IsZero() {
			break
		}
		h.tick(max(next.Sub(h.now), 0))
	}
	for _, p := range h.o.pods {
		if why := h.o.verdict(p); why != "" {
			h.Fatalf("%s is left: %s", p.Name, why)
		}
	}
	if h.c.Len() != len(h.pods)+len(h.nodes) {
		h.Fatalf("%d are kept, not %d and %d", h.c.Len(), len(h.pods), len(h.nodes))
	}
	for uid, p := range h.pods {
		if h.o.pods[uid] == nil {
			h.Fatalf("%s was not observed", p.Name)
		}
	}
}
