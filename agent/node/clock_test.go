package node

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/fake"
)

// An end that the runtime dates is never taken for earlier than it was, whichever way the
// clock was set once since the boot, before the end or after it.
func TestEndByAClockThatWasSet(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, set := range []time.Duration{0, time.Hour, -time.Hour, 100 * 24 * time.Hour, -100 * 24 * time.Hour} {
		for _, before := range []bool{false, true} { // the clock was set before the end
			boot := 10 * time.Hour
			var skew time.Duration
			c := newClock(state.Anchor{}, "b", func() time.Duration { return boot }, func() time.Time { return start.Add(boot + skew) })
			if before {
				skew = set
			}
			boot += 2 * time.Hour
			truth, told := c.now(), c.wall()
			boot += 3 * time.Hour
			skew = set
			got := c.end(told)
			if got.Before(truth) || got.After(c.now()) || set == 0 && !got.Equal(truth) {
				t.Errorf("the clock set by %v, before the end: %v: it ended at %v, taken for %v", set, before, truth, got)
			}
			start := c.anchorWall.Add(-c.anchorBoot)
			if at := c.end(start.Add(-time.Second)); at.Before(start) || set == 0 && !at.Equal(c.now()) {
				t.Errorf("the clock set by %v: an end from before the boot, %v, is taken for %v", set, start, at)
			}
		}
	}
}

// A reboot takes the kernel's stamps, and dates from before it say nothing. An end that was
// taken in keeps its age, one that was not counts as now.
func TestEndsAcrossAReboot(t *testing.T) {
	inWorld(t, func(w *world) {
		heard, unheard := w.add("heard", 20), w.add("unheard", 20)
		w.up()
		w.rt.Run(fake.CRINamespace, "c1", "heard")
		w.rt.Run(fake.CRINamespace, "c2", "unheard")
		w.pass(time.Minute)
		w.rt.Stop(fake.CRINamespace, "c1")
		w.pass(time.Hour)
		w.down()
		w.rt.Stop(fake.CRINamespace, "c2")
		w.pass(48 * time.Hour)
		w.boot, w.bootID, w.kernel = time.Now(), "boot-2", newFakeKernel()
		w.kernel.now = w.sinceBoot
		w.up()
		w.pass(time.Minute)
		for id, want := range map[string]time.Duration{heard: time.Hour + time.Minute, unheard: time.Minute} {
			if i := w.image(id); i.LastUsed == nil || (w.explain().Time.Sub(*i.LastUsed)-want).Abs() > time.Second {
				t.Errorf("%v: last used at %v, at %v; want %v ago", i.References, i.LastUsed, w.explain().Time, want)
			}
		}
	})
}
