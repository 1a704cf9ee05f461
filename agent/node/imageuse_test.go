package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/runtime/fake"
)

// wantUnused checks which ages have images, and how many.
func (w *world) wantUnused(when string, want map[string]float64) {
	w.t.Helper()
	got := w.series("ebb_node_images_by_last_use", "age")
	if len(got) != 7 {
		w.t.Errorf("%s: %d ages, not 7", when, len(got))
	}
	for age, n := range got {
		if n == 0 {
			delete(got, age)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s: images by age (-want +got):\n%s", when, diff)
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
		w.wantUnused("at the start", map[string]float64{"in_use": 1, "1h": 2})
		w.pass(5 * time.Hour)
		w.use("b")
		w.pass(time.Minute)
		w.wantUnused("after five hours", map[string]float64{"in_use": 1, "1h": 1, "6h": 1})
		w.skew.Store(int64(1000 * time.Hour)) // somebody sets the wall clock
		w.pass(10 * 24 * time.Hour)
		w.wantUnused("after ten days", map[string]float64{"in_use": 1, "30d": 2})
		w.pass(21 * 24 * time.Hour)
		w.wantUnused("after a month", map[string]float64{"in_use": 1, "older": 2})
	})
}
