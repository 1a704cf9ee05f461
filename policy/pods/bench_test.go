package pods_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/pods"
)

const ended = 50_000

// many gives Pods of Jobs, fifty of each, in a hundred namespaces on a thousand Nodes.
func many(i int, phase string) (gc.Object, pods.Pod) {
	id := func(i int) string { return fmt.Sprintf("%08x-89ab-4cde-8f01-%012x", i*2654435761&0xffffffff, i) }
	job := i / 50
	o := gc.Object{
		APIVersion: "v1", Kind: "Pod", Namespace: fmt.Sprint("namespace-", job%100), UID: id(i), ResourceVersion: fmt.Sprint(10_000_000 + i),
		Name:   fmt.Sprintf("nightly-report-%08d-%05x", 29_000_000+job, i),
		Owners: []gc.Reference{{APIVersion: "batch/v1", Kind: "Job", Name: fmt.Sprint("nightly-report-", job), UID: id(1<<30 + job)}},
	}
	created := noon.Add(time.Duration(i)*time.Second - ended*time.Second)
	p := pods.Pod{Phase: phase, Node: fmt.Sprint("node-", i%1000), Created: created}
	if phase == "Succeeded" {
		p.Ended = created.Add(time.Minute)
	}
	return o, p
}

func fill(n int, phase string, config pods.Config) *pods.Collector {
	c := pods.New(config)
	c.Listing(noon, nodeType)
	for i := range 1000 {
		name := fmt.Sprint("node-", i)
		c.Observe(noon, nodeType, gc.Object{Name: name, UID: uuid(name)}, pods.Node{Ready: true})
	}
	c.Synced(noon, nodeType)
	c.Listing(noon, podType)
	for i := range n {
		o, p := many(i, phase)
		c.Observe(noon, podType, o, p)
	}
	c.Synced(noon, podType)
	return c
}

// everything has all limits, with nothing beyond them.
var everything = pods.Config{Keep: ended, Succeeded: pods.Limits{PerNamespace: ended, PerOwner: ended, After: 1000 * time.Hour}}

func heapPerPod(n int, phase string, config pods.Config) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := fill(n, phase, config)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(c)
	return float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
}

// TestHeapBytesPerPod: 300 at most for a Pod that ended.
func TestHeapBytesPerPod(t *testing.T) {
	for _, test := range []struct {
		name, phase string
		config      pods.Config
		most        float64
	}{
		{"running", "Running", pods.Config{}, 200},
		{"ended", "Succeeded", pods.Config{}, 300},
		{"ended, with all limits", "Succeeded", everything, 300},
		{"ended, due", "Succeeded", pods.Config{Keep: 1}, 300},
	} {
		bytes := heapPerPod(ended, test.phase, test.config)
		t.Logf("%s: %.0f bytes", test.name, bytes)
		if bytes > test.most {
			t.Errorf("%s: more than %.0f", test.name, test.most)
		}
	}
}

func BenchmarkHeap(b *testing.B) {
	for _, bench := range []struct {
		name, phase string
		config      pods.Config
	}{{"ended", "Succeeded", pods.Config{}}, {"all-limits", "Succeeded", everything}, {"running", "Running", pods.Config{}}} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(heapPerPod(ended, bench.phase, bench.config), "heap-bytes/pod")
			}
		})
	}
}

// BenchmarkChurn: a Pod ends, and the oldest goes, with as many kept as the peer keeps.
func BenchmarkChurn(b *testing.B) {
	c := fill(12_500, "Succeeded", pods.Config{Keep: 12_500})
	i := 12_500
	for b.Loop() {
		o, p := many(i, "Succeeded")
		i++
		c.Observe(noon, podType, o, p)
		for _, a := range c.Ready(noon, 9) {
			c.Finished(noon, a.ID, gc.Done)
			c.Forget(noon, podType, gc.Object{UID: a.Object.UID})
		}
	}
	if c.Len() != 13_500 {
		b.Errorf("%d are kept", c.Len())
	}
}
