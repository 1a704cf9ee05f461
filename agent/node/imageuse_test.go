package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/runtime/fake"
)

// unused reads the histogram of images by the time for which they were not used.
func (w *world) unused() (buckets []uint64, count uint64) {
	w.t.Helper()
	families, err := w.agent.metrics.Registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "ebb_node_image_unused_seconds" {
			h := f.GetMetric()[0].GetHistogram()
			for _, b := range h.GetBucket() {
				buckets = append(buckets, b.GetCumulativeCount())
			}
			return buckets, h.GetSampleCount()
		}
	}
	return nil, 0
}

func (w *world) wantUnused(when string, want ...uint64) {
	w.t.Helper()
	got, count := w.unused()
	if diff := cmp.Diff(want, got); diff != "" || count != 3 {
		w.t.Errorf("%s: %d images, by age (-want +got):\n%s", when, count, diff)
	}
}

func TestImagesByLastUse(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"a", "b", "c"} {
			w.add(name, 10)
		}
		w.rt.Run(fake.CRINamespace, "runs", "a")
		w.cfg.ReconcileInterval = config.Duration(24 * time.Hour)
		w.up()
		//                    in use, 1 h, 6 h, 1 d, 3 d, 7 d, 30 d, 90 d
		w.wantUnused("at the start", 1, 3, 3, 3, 3, 3, 3, 3)
		w.pass(5 * time.Hour)
		w.use("b")
		w.pass(time.Minute)
		w.wantUnused("after five hours", 1, 2, 3, 3, 3, 3, 3, 3)
		w.skew.Store(int64(1000 * time.Hour)) // somebody sets the wall clock
		w.pass(10 * 24 * time.Hour)
		w.wantUnused("after ten days", 1, 1, 1, 1, 1, 1, 3, 3)
	})
}
