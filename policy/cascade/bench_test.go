package cascade

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// small is the metadata of a cluster: one set in twenty objects, the others its
// pods, in a hundred namespaces.
func small(i int) gc.Object {
	set := i - i%20
	namespace := fmt.Sprint("namespace-", set/20%100)
	id := func(i int) string { return fmt.Sprintf("%08x-89ab-4cde-8f01-%012x", i*2654435761&0xffffffff, i) }
	o := gc.Object{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: namespace,
		Name: fmt.Sprintf("service-%d-7d9f6c5b8", set), UID: id(set), ResourceVersion: fmt.Sprint(1000 + i),
	}
	if i != set {
		o.Owners = []gc.Reference{{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Block: true}}
		o.APIVersion, o.Kind, o.UID = "v1", "Pod", id(i)
		o.Name = fmt.Sprintf("%s-%05x", o.Name, i)
	}
	return o
}

func served(c *Collector) {
	c.TypeCame(noon, gc.Type{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true})
	c.TypeCame(noon, gc.Type{APIVersion: "apps/v1", Kind: "ReplicaSet", Resource: "replicasets", Namespaced: true})
	c.Synced(noon, "v1", "Pod")
	c.Synced(noon, "apps/v1", "ReplicaSet")
}

const tracked = 100_000

// tracking gives a collector of so many objects, and the live heap it takes.
func tracking(n int) (*Collector, float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := New(Config{})
	served(c)
	for i := range n {
		c.Observe(noon, small(i))
		if i%1000 == 0 {
			c.Ready(noon, 1000)
		}
	}
	c.Ready(noon, 1000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	return c, float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
}

func TestBytesPerObject(t *testing.T) {
	c, bytes := tracking(tracked)
	t.Logf("%.0f bytes per object", bytes)
	if bytes > 260 {
		t.Errorf("%.0f bytes per object, at most 260", bytes)
	}
	if c.Len() != tracked || len(c.work) > 0 || c.head < len(c.queue) {
		t.Errorf("%d nodes, %d at work, %d queued", c.Len(), len(c.work), len(c.queue))
	}
	runtime.KeepAlive(c)
}

func BenchmarkObserve(b *testing.B) {
	c, bytes := tracking(tracked)
	objects := make([]gc.Object, 10_000)
	for i := range objects {
		objects[i] = small(i * 10)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		o := &objects[n%len(objects)]
		o.ResourceVersion = fmt.Sprint(tracked*2 + n)
		c.Observe(noon, *o)
		n++
	}
	b.ReportMetric(bytes, "B/object")
}

// fan is one owner that went, with so many dependents.
func fan(dependents int, o gc.Object) *Collector {
	c := New(Config{})
	served(c)
	owner := gc.Object{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "a", Name: "s", UID: "s", ResourceVersion: "1"}
	c.Observe(noon, owner)
	for i := range dependents {
		c.Observe(noon, gc.Object{
			APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: fmt.Sprint("p", i), UID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i),
			ResourceVersion: fmt.Sprint(i + 2), Owners: []gc.Reference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "s", UID: "s", Block: true}},
		})
	}
	for len(c.Ready(noon, 1000)) > 0 {
	}
	o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID, o.ResourceVersion = "apps/v1", "ReplicaSet", "a", "s", "s", "999999"
	if o.Terminating {
		c.Observe(noon, o)
	} else {
		c.Forget(noon, o)
	}
	return c
}

// drain takes all actions, 32 at a time, and answers reads; it counts the others.
func drain(c *Collector, now time.Time, owner gc.Object) (actions int) {
	for {
		list := c.Ready(now, 32)
		if len(list) == 0 {
			return actions
		}
		for _, a := range list {
			if a.Verb == gc.Verify {
				c.Answered(now, now, a.ID, gc.Answer{State: gc.Exists, Object: owner})
			} else {
				actions++
			}
		}
	}
}

func BenchmarkCascade(b *testing.B) {
	for name, owner := range map[string]gc.Object{
		"background": {},
		"foreground": {Terminating: true, Finalizers: []string{gc.ForegroundFinalizer}},
		"orphan":     {Terminating: true, Finalizers: []string{gc.OrphanFinalizer}},
	} {
		b.Run(name, func(b *testing.B) {
			const dependents = 5000
			for b.Loop() {
				b.StopTimer()
				c := fan(dependents, owner)
				owner.UID = "s"
				b.StartTimer()
				if n := drain(c, noon, owner); n < dependents {
					b.Fatalf("%d actions", n)
				}
			}
		})
	}
}

// Every dependent gets its action, one each, in the order in which it came.
func TestFan(t *testing.T) {
	c := fan(5000, gc.Object{})
	var last string
	for n := 0; ; n++ {
		list := c.Ready(noon, 1)
		if len(list) == 0 {
			if n != 5000 {
				t.Errorf("%d actions", n)
			}
			return
		}
		if list[0].Verb != gc.Delete || list[0].Object.UID <= last {
			t.Fatalf("after %s: %+v", last, list[0])
		}
		last = list[0].Object.UID
	}
}
