package leases_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/nodes"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func lease(namespace, name, version string) gc.Object {
	return gc.Object{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: namespace, Name: name, UID: "uid-" + name, ResourceVersion: version}
}

func node(name string) gc.Object {
	return gc.Object{APIVersion: "v1", Kind: "Node", Name: name, UID: "uid-of-" + name, ResourceVersion: "1"}
}

// one is a collector that has listed one Lease, and the Nodes of these names.
func one(config leases.Config, o gc.Object, l leases.Lease, nodes ...string) *leases.Collector {
	c := leases.New(config)
	c.Listing(noon, leaseType)
	c.Observe(noon, leaseType, o, l)
	c.Synced(noon, leaseType)
	c.Listing(noon, nodeType)
	for _, name := range nodes {
		c.Observe(noon, nodeType, node(name), nil)
	}
	c.Synced(noon, nodeType)
	return c
}

func reason(c *leases.Collector, uid string) gc.Reason {
	f, _ := c.Explain(gc.Coordinates{UID: uid})
	return f.Reason
}

// TestKept: what is kept, whatever happens to the Node.
func TestKept(t *testing.T) {
	const nodes = "kube-node-lease"
	config := leases.Config{
		Own: []string{"ebb-system/ebb-controller", "kube-node-lease/mine"},
		Elections: []leases.Election{
			{Namespaces: gc.Patterns{"ops"}, Names: gc.Patterns{"slow-*"}, After: 100 * time.Hour},
			{Names: gc.Patterns{"*-leader", "apiserver-*", "ebb-controller", "slow-*", "n"}, After: time.Hour},
		},
	}
	long := leases.Lease{Holder: "n", Expires: noon.Add(-3 * time.Hour)}
	fresh := leases.Lease{Holder: "n", Expires: noon.Add(-30 * time.Minute)}
	for _, test := range []struct {
		object gc.Object
		lease  any
		owned  bool
		want   gc.Reason
	}{
		{lease(nodes, "n", "1"), long, true, leases.Owned},
		{lease(nodes, "other", "1"), long, false, leases.OtherHolder},
		{lease(nodes, "n", "1"), nil, false, leases.OtherHolder}, // not understood
		{lease(nodes, "n", "1"), leases.Lease{Identity: true}, false, leases.APIServer},
		{lease(nodes, "mine", "1"), leases.Lease{}, false, leases.EbbsOwn},
		{lease("kube-system", "apiserver-x7", "1"), long, false, leases.APIServer},
		{lease("ops", "an-apiserver", "1"), leases.Lease{Identity: true}, false, leases.APIServer},
		{lease("ops", "apiserver-x7", "1"), long, false, leases.ElectionExpired}, // somebody's election
		{lease("ebb-system", "ebb-controller", "1"), long, false, leases.EbbsOwn},
		{lease("ops", "my-leader", "1"), long, false, leases.ElectionExpired},
		{lease("ops", "my-leader", "1"), fresh, false, leases.InElection},
		{lease("ops", "my-leader", "1"), leases.Lease{}, false, leases.InElection},
		{lease("ops", "my-leader", "1"), nil, false, leases.InElection},
		{lease("ops", "slow-leader", "1"), long, false, leases.InElection},
		{lease("elsewhere", "slow-leader", "1"), long, false, leases.ElectionExpired},
		{lease("ops", "something", "1"), long, false, leases.NotSelected},
		{lease("my-kube-node-lease", "n", "1"), long, false, leases.ElectionExpired},
	} {
		if test.owned {
			test.object.Owners = []gc.Reference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
		}
		c := leases.New(config)
		c.Observe(noon, leaseType, test.object, test.lease)
		c.Synced(noon, leaseType)
		c.Synced(noon, nodeType)
		if got := reason(c, test.object.UID); got != test.want {
			t.Errorf("%s/%s %+v: %s, not %s", test.object.Namespace, test.object.Name, test.lease, got, test.want)
		}
		if got := c.Ready(noon.AddDate(9, 0, 0), 10); len(got) > 0 || !c.Next().IsZero() {
			t.Errorf("%s/%s: %v", test.object.Namespace, test.object.Name, got)
		}
	}
}

// TestNodeGone: a Lease goes after the quarantine, and after a live read of its Node.
func TestNodeGone(t *testing.T) {
	c := one(leases.Config{Quarantine: time.Minute}, lease("kube-node-lease", "n", "7"), leases.Lease{Holder: "n", Expires: noon.Add(-time.Hour)}, "n", "m")
	if got := reason(c, "uid-n"); got != leases.NodeThere || !c.Next().IsZero() {
		t.Fatalf("with its Node: %s, next %v", got, c.Next())
	}
	c.Forget(noon.Add(time.Second), nodeType, node("m"))
	c.Forget(noon.Add(time.Second), nodeType, node("n"))
	due := noon.Add(time.Minute + time.Second)
	if got := reason(c, "uid-n"); got != leases.NodeGone || !c.Next().Equal(due) {
		t.Fatalf("without: %s, next %v", got, c.Next())
	}
	if got := c.Ready(due.Add(-1), 10); len(got) > 0 {
		t.Fatalf("within the quarantine: %v", got)
	}
	n := gc.Coordinates{APIVersion: "v1", Kind: "Node", Resource: "nodes", Name: "n"}
	ask := func(verb gc.Verb, now time.Time) gc.Action {
		t.Helper()
		got := c.Ready(now, 10)
		if len(got) != 1 || got[0].Verb != verb || verb == gc.Verify && got[0].Object != n {
			t.Fatalf("%v, not to %s", got, verb)
		}
		return got[0]
	}
	read := ask(gc.Verify, due)
	if got := c.Ready(due, 10); len(got) > 0 {
		t.Fatalf("while it is read: %v", got)
	}
	c.Answered(due, due, read.ID, gc.Answer{State: gc.Unknown})
	if got := c.Ready(due, 10); len(got) > 0 {
		t.Fatalf("an answer is missing, and %v", got)
	}
	later := due.Add(time.Minute)
	c.Answered(later, noon.AddDate(-9, 0, 0), ask(gc.Verify, later).ID, gc.Answer{State: gc.Absent}) // asOf is of another clock
	del := ask(gc.Delete, later)
	if del.Object.Name != "n" || del.Object.Kind != "Lease" || del.ResourceVersion != "7" || del.Owner != n || del.Object.UID != "uid-n" {
		t.Errorf("%+v", del)
	}
	c.Finished(later, del.ID, gc.Withheld)
	c.Release(later)
	c.Finished(later, ask(gc.Delete, later).ID, gc.TooMany)
	ask(gc.Verify, later.Add(nodes.AbsentFor+time.Second)) // that was too long ago
}

// TestNodeThereAfterAll: a live read that finds the Node has it all begin again.
func TestNodeThereAfterAll(t *testing.T) {
	c := one(leases.Config{Quarantine: time.Minute}, lease("kube-node-lease", "n", "7"), leases.Lease{})
	due := noon.Add(time.Minute)
	got := c.Ready(due, 10)
	if len(got) != 1 {
		t.Fatalf("%v", got)
	}
	c.Answered(due, due, got[0].ID, gc.Answer{State: gc.Exists, Object: node("n")})
	if next := c.Next(); !next.Equal(due.Add(time.Minute)) {
		t.Errorf("next at %v", next)
	}
	c.Observe(due, nodeType, node("n"), nil)
	if next := c.Next(); !next.IsZero() || reason(c, "uid-n") != leases.NodeThere {
		t.Errorf("next at %v", next)
	}
}

// TestNodeCameAndWent: the result of a live read counts no more once the Node was there.
func TestNodeCameAndWent(t *testing.T) {
	c := one(leases.Config{Quarantine: time.Second}, lease("kube-node-lease", "n", "7"), leases.Lease{})
	now := noon.Add(time.Second)
	for _, between := range []func(){
		func() { c.Observe(now, nodeType, node("n"), nil); c.Forget(now, nodeType, node("n")) },
		func() { c.Unreadable(now, nodeType); c.Synced(now, nodeType) },
	} {
		got := c.Ready(now, 10)
		if len(got) != 1 || got[0].Verb != gc.Verify {
			t.Fatalf("%v", got)
		}
		c.Answered(now, now, got[0].ID, gc.Answer{State: gc.Absent})
		between()
		now = now.Add(time.Second)
	}
	if got := c.Ready(now, 10); len(got) != 1 || got[0].Verb != gc.Verify {
		t.Errorf("%v", got)
	}
}

// TestNamesAreKept: what is observed shares the memory of a batch, which is used again.
func TestNamesAreKept(t *testing.T) {
	c := one(leases.Config{}, lease("kube-node-lease", "n", "7"), leases.Lease{})
	for range 2 {
		batch := []byte("nuid-of-n")
		text := unsafe.String(&batch[0], len(batch))
		c.Observe(noon, nodeType, gc.Object{Name: text[:1], UID: text[1:], ResourceVersion: text}, nil)
		clear(batch)
	}
	if got := reason(c, "uid-n"); got != leases.NodeThere {
		t.Errorf("%s", got)
	}
	c.Forget(noon, nodeType, node("n"))
	if got := reason(c, "uid-n"); got != leases.NodeGone {
		t.Errorf("%s", got)
	}
}

// TestNodesUnread: only complete lists prove that a Node is missing, and this counts
// from the last of them.
func TestNodesUnread(t *testing.T) {
	c := leases.New(leases.Config{Quarantine: time.Minute})
	c.Listing(noon, leaseType)
	c.Observe(noon, leaseType, lease("kube-node-lease", "n", "1"), leases.Lease{})
	c.Synced(noon, leaseType)
	now := noon
	for _, test := range []struct {
		name string
		step func()
	}{
		{"unlisted", func() {}},
		{"a list", func() { c.Listing(now, nodeType) }},
		{"unreadable", func() { c.Unreadable(now, nodeType) }},
		{"restored", func() {
			c.Restored(now)
			c.Observe(now, leaseType, lease("kube-node-lease", "n", "1"), leases.Lease{})
			c.Synced(now, leaseType)
		}},
	} {
		name := test.name
		test.step()
		if got := reason(c, "uid-n"); got != leases.NodesUnread || !c.Next().IsZero() {
			t.Errorf("%s: %s, next %v", name, got, c.Next())
		}
		now = now.Add(time.Hour)
		c.Listing(now, nodeType)
		c.Synced(now, nodeType)
		if next := c.Next(); !next.Equal(now.Add(time.Minute)) {
			t.Errorf("%s: next at %v, not a minute after %v", name, next, now)
		}
	}
	c.Unreadable(now, leaseType)
	if got := reason(c, "uid-n"); got != leases.Unread || !c.Next().IsZero() {
		t.Errorf("Leases are unreadable: %s", got)
	}
}

// TestRenewed: a kubelet without a Node may go on renewing. It is not disturbed, whatever its clock shows.
func TestRenewed(t *testing.T) {
	for _, ahead := range []time.Duration{40 * time.Second, -24 * time.Hour} {
		c := one(leases.Config{}, lease("kube-node-lease", "n", "1"), leases.Lease{Holder: "n", Expires: noon.Add(ahead)})
		now := noon
		for i := range 1000 {
			now = now.Add(10 * time.Second)
			c.Observe(now, leaseType, lease("kube-node-lease", "n", fmt.Sprint(i+2)), leases.Lease{Holder: "n", Expires: now.Add(ahead)})
			if got := c.Ready(now, 10); len(got) > 0 {
				t.Fatalf("clock %v: %v", ahead, got)
			}
		}
		if next := c.Next(); !next.Equal(now.Add(time.Hour + max(ahead, 0))) {
			t.Errorf("clock %v: next at %v", ahead, next)
		}
	}
}

const many = 5_000

// fill gives a collector of a cluster with many Nodes, a tenth of which are gone, and the
// live heap it takes.
func fill() (*leases.Collector, float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := leases.New(leases.Config{})
	c.Listing(noon, leaseType)
	c.Listing(noon, nodeType)
	for i := range many {
		o := lease("kube-node-lease", fmt.Sprintf("ip-10-0-%d-%d.example.internal", i/256, i%256), fmt.Sprint(1000000+i))
		o.UID = fmt.Sprintf("%08x-89ab-4cde-8f01-%012x", i*2654435761&0xffffffff, i)
		c.Observe(noon, leaseType, o, leases.Lease{Holder: o.Name, Expires: noon})
		if n := node(o.Name); i%10 > 0 {
			n.UID = fmt.Sprintf("%08x-89ab-4cde-8f02-%012x", i*2654435761&0xffffffff, i)
			c.Observe(noon, nodeType, n, nil)
		}
	}
	c.Synced(noon, leaseType)
	c.Synced(noon, nodeType)
	runtime.GC()
	runtime.ReadMemStats(&after)
	return c, float64(after.HeapAlloc-before.HeapAlloc) / float64(c.Len())
}

func TestBytesPerObject(t *testing.T) {
	c, bytes := fill()
	if t.Logf("%.0f bytes per Lease or Node", bytes); bytes > 300 {
		t.Errorf("%.0f bytes per object, at most 300", bytes)
	}
	if got := c.Ready(noon.Add(2*time.Hour), many); len(got) != many/10 {
		t.Errorf("%d are due", len(got))
	}
}

// BenchmarkRenew: each kubelet renews its Lease every ten seconds.
func BenchmarkRenew(b *testing.B) {
	c, bytes := fill()
	o := lease("kube-node-lease", "ip-10-0-0-1.example.internal", "")
	o.UID = fmt.Sprintf("%08x-89ab-4cde-8f01-%012x", 2654435761&0xffffffff, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o.ResourceVersion = fmt.Sprint(i)
		c.Observe(noon, leaseType, o, leases.Lease{Holder: o.Name, Expires: noon})
	}
	b.ReportMetric(bytes, "heap-B/object")
}

// TestHolderChangesDuringRead: that the old holder's Pod is gone proves nothing about the new one's.
func TestHolderChangesDuringRead(t *testing.T) {
	config := leases.Config{Elections: []leases.Election{{Names: gc.Patterns{"*-leader"}, After: time.Hour, Delete: true}}}
	expired := noon.Add(-3 * time.Hour)
	c := one(config, lease("ops", "my-leader", "7"), leases.Lease{Holder: "old", Expires: expired})
	asked := c.Ready(noon, 10)
	if len(asked) != 1 || asked[0].Verb != gc.Verify || asked[0].Object.Name != "old" {
		t.Fatalf("%v", asked)
	}
	c.Observe(noon, leaseType, lease("ops", "my-leader", "8"), leases.Lease{Holder: "new", Expires: expired})
	c.Answered(noon, noon, asked[0].ID, gc.Answer{State: gc.Absent})
	if again := c.Ready(noon, 10); len(again) != 1 || again[0].Verb != gc.Verify || again[0].Object.Name != "new" {
		t.Errorf("%v", again)
	}
}

// TestElections: an election's Lease that has expired for long goes, by opt-in, if its
// holder's Pod is gone, or nobody holds it. What cannot be a Pod's name is only reported.
func TestElections(t *testing.T) {
	config := leases.Config{Elections: []leases.Election{{Names: gc.Patterns{"*-leader"}, After: time.Hour, Delete: true}}}
	expired := noon.Add(-3 * time.Hour)
	for holder, pod := range map[string]string{
		"":      "",
		"web-0": "web-0",
		"web-7d9f_9a7b6c5d-0000-4000-8000-000000000000": "web-7d9f",
		"Node-1_x":                    "keep",
		"10.0.0.1:8080":               "keep",
		"../../secrets/x":             "keep",
		strings.Repeat("a", 63) + "_": "keep", // it may have been cut
	} {
		c := one(config, lease("ops", "my-leader", "7"), leases.Lease{Holder: holder, Expires: expired})
		got := c.Ready(noon, 10)
		if pod == "keep" {
			if len(got) > 0 || reason(c, "uid-my-leader") != leases.ElectionExpired {
				t.Errorf("%q: %v, %s", holder, got, reason(c, "uid-my-leader"))
			}
			continue
		}
		if pod != "" {
			if len(got) != 1 || got[0].Verb != gc.Verify || got[0].Object != (gc.Coordinates{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespace: "ops", Name: pod}) {
				t.Errorf("%q: %v", holder, got)
				continue
			}
			c.Answered(noon, noon, got[0].ID, gc.Answer{State: gc.Exists})
			if next := c.Next(); !next.Equal(noon.Add(time.Hour)) {
				t.Errorf("%q: its Pod is there, and the next look is at %v", holder, next)
			}
			later := noon.Add(time.Hour)
			got = c.Ready(later, 10)
			c.Answered(later, later, got[0].ID, gc.Answer{State: gc.Absent})
			got = c.Ready(later, 10)
		}
		if len(got) != 1 || got[0].Verb != gc.Delete || got[0].ResourceVersion != "7" || got[0].Reason != leases.ElectionAbandoned {
			t.Errorf("%q: %v", holder, got)
		}
	}
}
