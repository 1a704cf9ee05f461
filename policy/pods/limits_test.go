package pods_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/pods"
)

func owned(p *pod, by string) {
	p.Owners = []gc.Reference{{APIVersion: "batch/v1", Kind: "Job", Name: by, UID: by}}
}

// TestLimits: by namespace, by owner and by age, for succeeded and failed apart.
func TestLimits(t *testing.T) {
	w := newCluster(t, pods.Config{
		Succeeded: pods.Limits{PerOwner: 2, After: 6 * time.Hour},
		Failed:    pods.Limits{PerNamespace: 1},
	})
	w.nodes["n"] = ready
	for i := range 4 {
		owned(w.add(fmt.Sprint("s", i), "n", "Succeeded"), "job")
		w.pods[fmt.Sprint("s", i)].Ended = noon
	}
	owned(w.add("other", "n", "Succeeded"), uuid("other"))
	w.add("alone", "n", "Succeeded").Ended = time.Time{} // it has no end time: counts since it was seen
	w.pods["other"].Ended = noon.Add(time.Hour)          // by a clock that is ahead
	owned(w.add("f0", "n", "Failed"), "job")
	owned(w.add("f1", "n", "Failed"), "job")
	w.add("elsewhere", "n", "Failed").Namespace = "else"
	w.list()
	w.pass(time.Hour)
	w.want("delete s0 over_owner_limit", "delete s1 over_owner_limit", "delete f0 over_namespace_limit")
	if f := w.explain("s2"); f.Reason != pods.WithinLimits || !f.Due.Equal(noon.Add(6*time.Hour)) {
		t.Errorf("s2: %+v", f)
	}
	w.pass(5*time.Hour - time.Second)
	w.want()
	w.pass(time.Second)
	w.want("delete s2 time_up", "delete s3 time_up", "delete alone time_up")
	w.pass(time.Hour)
	w.want("delete other time_up")
	w.wantReason("f1", pods.WithinLimits)
}

// TestCountNeedsAList: a watch that broke may have missed that others went.
func TestCountNeedsAList(t *testing.T) {
	w := newCluster(t, pods.Config{Keep: 2, Succeeded: pods.Limits{After: 30 * time.Hour}})
	w.nodes["n"] = ready
	for _, name := range []string{"a", "b"} {
		w.add(name, "n", "Succeeded").Ended = noon
	}
	w.list()
	w.c.Unreadable(w.now, podType)
	w.c.Listing(w.now, podType)
	delete(w.pods, "b")
	w.see(w.add("c", "n", "Succeeded"))
	w.pass(time.Hour)
	w.want()
	w.wantReason("a", pods.PodsUnread)
	w.see(w.pods["a"])
	w.c.Synced(w.now, podType)
	w.pass(time.Hour)
	w.want()
	w.wantReason("a", pods.WithinLimits)
	if w.c.Len() != 3 {
		t.Errorf("%d are kept", w.c.Len())
	}
	w.c.Unreadable(w.now, podType) // what rests on the Pod alone goes on
	w.pass(28 * time.Hour)
	w.want("delete a time_up", "delete c time_up")
}

// TestOrder: force deletions first, then what was evicted, then the oldest, whatever their
// clocks showed.
func TestOrder(t *testing.T) {
	w := newCluster(t, pods.Config{Keep: 1})
	w.nodes["n"], w.nodes["o"] = ready, out
	w.add("second", "n", "Failed")
	w.add("third", "n", "Succeeded")
	w.add("first", "n", "Failed").Evicted = true
	w.add("zeroth", "o", "Failed").Terminating = true
	w.add("fourth", "n", "Failed").Created = noon.Add(1000 * time.Hour)
	w.add("kept", "n", "Failed").Created = noon.Add(2000 * time.Hour)
	w.list()
	for _, want := range []string{"zeroth", "first", "second", "third", "fourth"} {
		if next := w.c.Next(); !next.Equal(w.now) {
			t.Errorf("the next is at %v, not now", next)
		}
		a := w.c.Ready(w.now, 1)
		if len(a) != 1 || a[0].Object.Name != want {
			t.Fatalf("%s: %+v", want, a)
		}
		if f := w.explain(want); !f.Due.Equal(w.now) || !f.InFlight {
			t.Errorf("%s: %+v", want, f)
		}
	}
	if a := w.c.Ready(w.now, 9); len(a) > 0 {
		t.Errorf("also %+v", a)
	}
}

// TestNothingGoesTwice: until its effect is seen; and others go only for others.
func TestNothingGoesTwice(t *testing.T) {
	w := newCluster(t, pods.Config{Keep: 1})
	w.nodes["n"] = ready
	w.add("a", "n", "Failed")
	w.add("b", "n", "Failed")
	w.list()
	asked := w.c.Ready(w.now, 9)
	w.c.Finished(w.now, asked[0].ID, gc.Done) // and the watch is late
	if again := w.c.Ready(w.now, 9); len(asked) != 1 || len(again) != 0 {
		t.Fatalf("asked for %v, then %v", asked, again)
	}
	w.see(w.add("c", "n", "Failed"))
	w.run()
	w.want("delete b over_limit")
}

func TestWithheld(t *testing.T) {
	w := newCluster(t, pods.Config{Keep: 1})
	w.nodes["n"] = ready
	w.add("a", "n", "Failed")
	w.add("b", "n", "Failed")
	w.list()
	ask := func(want int) {
		t.Helper()
		asked := w.c.Ready(w.now, 9)
		if len(asked) != want {
			t.Fatalf("asked for %v", asked)
		}
		for _, a := range asked {
			w.c.Finished(w.now, a.ID, gc.Withheld)
		}
		w.now = w.now.Add(time.Hour)
	}
	ask(1)
	ask(0)
	w.c.Release(w.now)
	ask(1)
	w.see(w.pods["a"])
	ask(1)
	w.c.Hold(w.now, true)
	w.c.Release(w.now)
	ask(0)
	w.c.Hold(w.now, false)
	w.c.Slow(w.now, w.now.Add(2*time.Hour), 1)
	ask(0)
	ask(0)
	ask(1)
	if f := w.explain("a"); !f.Asked || f.Last != gc.Withheld || f.Reason != pods.OverLimit {
		t.Errorf("a: %+v", f)
	}
}

// TestNamespaces: elsewhere nothing goes, and nothing is counted.
func TestNamespaces(t *testing.T) {
	w := newCluster(t, pods.Config{Keep: 1, Namespaces: gc.Patterns{"def*"}})
	w.nodes["n"] = ready
	w.add("a", "n", "Failed")
	for i := range 3 {
		w.add(fmt.Sprint("o", i), "gone", "Failed").Namespace = "else"
	}
	w.list()
	w.pass(time.Hour)
	w.want()
	w.wantReason("o0", pods.OtherNamespace)
	if w.reads > 0 {
		t.Error("a Node is read for Pods that are not selected")
	}
	w.c.Configure(w.now, pods.Config{Keep: 4})
	w.pass(time.Hour)
	w.want("delete o0 node_gone", "delete o1 node_gone", "delete o2 node_gone")
}

// TestRestored: nothing is left of what was known; what cannot be understood is not known.
func TestRestored(t *testing.T) {
	w := newCluster(t, pods.Config{Keep: 1, Succeeded: pods.Limits{PerOwner: 1, PerNamespace: 1, After: time.Hour}})
	for i := range 5 {
		owned(w.add(fmt.Sprint("p", i), "n", "Succeeded"), fmt.Sprint(i%2))
	}
	w.list()
	late := w.c.Ready(w.now, 1)
	w.c.Restored(w.now)
	if w.c.Len() != 0 || !w.c.Next().IsZero() || len(w.c.Ready(w.now.Add(time.Hour), 9)) > 0 {
		t.Errorf("%d are left, the next at %v", w.c.Len(), w.c.Next())
	}
	clear(w.pods)
	w.nodes["n"] = ready
	owned(w.add("p0", "n", "Succeeded"), "0")
	w.pods["p0"].Ended = noon
	w.list()
	w.c.Finished(w.now, late[0].ID, gc.Done)
	w.pass(time.Minute)
	w.want()
	w.c.Observe(w.now, podType, w.pods["p0"].Object, nil)
	if _, known := w.c.Explain(gc.Coordinates{Kind: "Pod", UID: uuid("p0")}); known {
		t.Error("what was not understood is known")
	}
	w.pass(2 * time.Hour)
	w.want()
}

// TestOddUIDs: a UID is whatever the API server sends.
func TestOddUIDs(t *testing.T) {
	for _, uid := range []string{"x", "", "9C2A1F56-0000-4000-8000-000000000000", "9c2a1f56-0000-0000-8000-000000000000", "9c2a1f56-0000-4000-8000-00000000000g"} {
		w := newCluster(t, pods.Config{})
		p := w.add("a", "", "Failed")
		p.Terminating, p.UID = true, uid
		w.list()
		if a := w.c.Ready(w.now, 9); len(a) != 1 || a[0].Object.UID != uid {
			t.Errorf("%q: %+v", uid, a)
		}
	}
}
