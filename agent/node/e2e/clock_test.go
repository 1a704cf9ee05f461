package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

// The tests below do not set the machine's clock, as TestReboot does. They move what an agent wrote
// by the clock: to the next agent, records that are three days ahead look the
// same as a clock that was set back by three days.

const threeDays = 72 * time.Hour

// TestClockSet: the wall clock is set while the node is up. Neither order nor
// ages change, and what comes next finds its place.
func TestClockSet(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{threeDays, -threeDays} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			t.Parallel()
			b := clockFixture(t)
			b.editState(func(r *state.Records) {
				r.Shift(-jump)
				r.Meta.Anchor.Wall = r.Meta.Anchor.Wall.Add(-jump)
			})
			b.use("a0") // stamped by the kernel, whose clock nobody can set
			b.checkAfterJump()
		})
	}
}

// TestClockWrongAcrossReboot: the node comes up with a clock that is days off,
// or after days. Nobody can tell which, so ages do not advance.
func TestClockWrongAcrossReboot(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{threeDays, -threeDays} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			t.Parallel()
			b := clockFixture(t)
			b.must(agentrun.Unload(b.config)) // a reboot takes the kernel's record
			b.editState(func(r *state.Records) {
				r.Shift(-jump)
				r.Meta.Anchor = state.Anchor{BootID: "another", Boot: 1000 * time.Hour, Wall: r.Meta.Saved}
			})
			b.checkAfterJump()
		})
	}
}

// clockFixture is a fixture with images in a known order of use, and no agent.
func clockFixture(t *testing.T) *fixture {
	t.Helper()
	b := newFixture(t, node.Debian, plains("a", 7)...)
	b.config.Images.MaximumAge, b.config.Images.AgeRemovalsPerHourPercent = config.Duration(24*time.Hour), 100
	b.start()
	b.use("a3", "a1", "a5", "a0", "a4", "a2", "a6")
	b.awaitOrder()
	b.stop()
	return b
}

func (b *fixture) checkAfterJump() {
	b.Helper()
	mark := b.journal.mark()
	b.start()
	b.awaitOrder()
	b.importImages(plain("late", layerBytes))
	b.use("late", "a1")
	b.awaitOrder()
	if gone := b.gone(); len(gone) > 0 {
		b.Errorf("removed because of the clock: %v", gone)
	}
	b.cross()
	b.journal.await(b.T, mark, "reclaim run ended")
	b.checkRun(mark)
	for _, l := range b.removals(mark) {
		if l.Text("reason") != "threshold" {
			b.Errorf("%s was removed for its %s", b.scenario.name(l.Text("image")), l.Text("reason"))
		}
	}
}

// TestMaximumAge: an image goes by its age once the agent has watched it for
// that long, and no image that is in use or was used meanwhile.
func TestMaximumAge(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 3)...)
	const age = 6 * time.Second
	b.config.Images.MaximumAge, b.config.Images.AgeRemovalsPerHourPercent = config.Duration(age), 100
	b.sleepIn("a1")
	used := b.sleepIn("a2")
	mark := b.journal.mark()
	b.start()
	began := b.journal.await(t, mark, "container runtime connected")
	b.end("a2", used)
	b.eventually("the removal of the unused image", func() error {
		if len(b.removals(mark)) == 0 {
			return fmt.Errorf("nothing is removed")
		}
		return nil
	})
	first := b.removals(mark)[0]
	if got := b.scenario.name(first.Text("image")); got != "a0" || first.Text("reason") != "maximum_age" {
		t.Errorf("first to go was %s, for its %s", got, first.Text("reason"))
	}
	if watched := first.Time.Sub(began.Time); watched < age || watched > age+time.Minute { // well before a timer would look
		t.Errorf("it went after it had been watched for %v", watched)
	}
	b.eventually("the removal of the image used once", func() error {
		if len(b.removals(mark)) < 2 {
			return fmt.Errorf("only one is removed")
		}
		return nil
	})
	b.mustStay("a1")
	b.awaitMetric(`ebb_node_images_removed_total{reason="maximum_age"}`, 2)
}
