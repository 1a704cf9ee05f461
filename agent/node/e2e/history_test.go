package e2e

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bolt "go.etcd.io/bbolt"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/tools/node"
)

// forgetHistory leaves the next agent what the other records have.
func (b *fixture) forgetHistory() {
	b.Helper()
	store, _ := b.openState()
	b.must(store.DB().Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("history-removals")) }))
	b.must(store.Close())
}

// savedHistory is what an agent that does not run any more had booked: the outcomes of each image,
// newest first.
func (b *fixture) savedHistory() map[string][]string {
	store, _ := b.openState()
	h := history.New(prometheus.NewRegistry(), history.Options{
		Now: time.Now, Wall: time.Now, Conditions: condition.NewSet(slog.New(slog.DiscardHandler)),
	})
	h.Attach(store.DB())
	p, err := h.Read(1000, "")
	b.must(err)
	b.must(store.Close())
	outcomes := make(map[string][]string)
	for _, e := range p.Entries {
		if e.Kind == page.KindImage {
			outcomes[b.scenario.name(e.ID)] = append(outcomes[b.scenario.name(e.ID)], e.Outcome)
		}
	}
	return outcomes
}

// TestKilledAgentHasBookedWhatWent: killed at any moment of a run, agent after agent, each has an
// entry of every image that went. The next one finds out which of those that were begun did.
// What has a name is whole at each kill, and in the end nothing is left of the others.
func TestKilledAgentHasBookedWhatWent(t *testing.T) {
	t.Parallel()
	b := newFixtureOn(t, "xfs", node.V2, plains("a", 12)...)
	b.start()
	b.use("a3", "a6", "a1", "a5", "a0", "a4", "a2", "a7", "a11", "a9", "a10", "a8")
	b.awaitOrder()
	b.cross()
	begun := 0
	for round := range 6 {
		time.Sleep(time.Duration(10+17*round) * time.Millisecond) // a different moment each round, not a wait for anything
		b.kill()
		b.must(b.node.ImagesWhole(b.ctx))
		booked, away := b.savedHistory(), b.withdrawn()
		for _, name := range b.gone() {
			if is := booked[name]; !slices.Contains(away, name) && (len(is) == 0 || is[0] != page.OutcomeRemoved && is[0] != page.OutcomeBegun) {
				t.Errorf("round %d: %s is gone, and in the history it is %q", round, name, is)
			}
		}
		for _, is := range booked {
			if slices.Contains(is, page.OutcomeBegun) {
				begun++
			}
		}
		b.startUnready()
	}
	b.awaitReady()
	b.eventually("a low disk", b.notLow)
	b.checkGone()
	b.stop()
	b.must(b.node.Whole(b.ctx))
	gone, booked := b.gone(), b.savedHistory()
	t.Logf("%d images went, %d were under way at a kill: %v", len(gone), begun, booked)
	for name, is := range booked {
		if slices.Contains(is, page.OutcomeBegun) || slices.Contains(is, page.OutcomeRemoved) != slices.Contains(gone, name) {
			t.Errorf("%s is gone: %v, and in the history it is %q", name, slices.Contains(gone, name), is)
		}
	}
	for _, name := range gone {
		if len(booked[name]) == 0 {
			t.Errorf("%s is gone, and the history does not know it", name)
		}
	}
}
