package lastuse

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// noStamps are programs that have seen nothing.
type noStamps struct{ Probes }

func (noStamps) LastUses() (map[bpf.Key]uint64, error) { return nil, nil }
func (noStamps) Counters() (bpf.Counters, error)       { return bpf.Counters{}, nil }

// The kernel's stamps bring no image back that was removed since the runtime was last asked: when
// somebody pulls it, it has only just come.
func TestHarvestAfterRemoval(t *testing.T) {
	log, boot := slog.New(slog.DiscardHandler), 10*time.Hour
	tracker := New(Options{
		Probes: noStamps{}, Log: log, Conditions: condition.NewSet(log),
		Metrics: NewMetrics(program.Factory{Registry: prometheus.NewRegistry(), Subsystem: "node"}),
	})
	start := time.Unix(1e9, 0)
	c := clock.New(state.Anchor{}, "b", clock.Sources{
		Boot: func() time.Duration { return boot },
		Wall: func() time.Time { return start.Add(boot) },
	})
	tracker.Restore(c, state.New())
	there := &inventory.Inventory{Images: []inventory.Image{{ID: "i"}}}
	tracker.Listed(there, c.Now(), false)
	tracker.Removed(image.Decision{ImageID: "i"}, nil, c.Now())
	boot += time.Minute
	tracker.Harvest()
	var saved state.Records
	if tracker.Save(&saved); len(saved.Images) != 0 {
		t.Errorf("%v is on record", saved.Images)
	}
	tracker.Listed(there, c.Now(), false)
	if r := tracker.Image("i"); !r.Arrived.Equal(c.Now()) || r.Again != 1 {
		t.Errorf("the record of an image that was pulled again is %+v", r)
	}
}
