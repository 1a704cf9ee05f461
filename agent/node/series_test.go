package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/cgroup"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// exported counts the series that a scrape gives, without the Go runtime's and the
// process's.
func (w *world) exported() (series int) {
	w.t.Helper()
	families, err := w.agent.metrics.Registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "ebb_") {
			continue
		}
		for _, m := range f.GetMetric() {
			series++
			if h := m.GetHistogram(); h != nil {
				series += len(h.GetBucket()) + 2
			}
		}
	}
	return series
}

// However many images, containers and writers there are, a scrape has no more series: only
// writers are named, as many as the configuration allows.
func TestSeriesDoNotGrowWithTheNode(t *testing.T) {
	const top = 10
	count := map[int]int{}
	for _, things := range []int{top, 300} {
		inWorld(t, func(w *world) {
			w.cfg.Writers.Top = top
			w.rt.SetDisk(1000*size, 0, 10_000_000)
			paths, list := fakeCgroups{}, []inventory.Container{}
			for i := range things {
				id := fmt.Sprintf("%064x", i)
				w.add(fmt.Sprint("image-", i), 2)
				w.kernel.writers = append(w.kernel.writers, bpf.Writer{Cgroup: uint64(i), Grown: uint64(i)})
				paths[uint64(i)] = "/kubepods/" + id
				list = append(list, inventory.Container{Namespace: "k8s.io", ID: id, Pod: inventory.Pod{Namespace: "shop", Name: fmt.Sprint("web-", i), Container: "main"}})
			}
			w.cgroups = paths
			w.up()
			w.pass(time.Minute)
			w.agent.metrics.writers.Load().containers.Store(cgroup.NewContainers(list))
			count[things] = w.exported()
		})
	}
	t.Logf("%d series", count[300])
	if count[300] != count[top] || count[300] > 400 {
		t.Errorf("%d series with 300 of everything, %d with %d; at most 400", count[300], count[top], top)
	}
}
