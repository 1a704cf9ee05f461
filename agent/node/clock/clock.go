// Package clock is ebb's own time. It reads like the wall clock at the moment the boot
// was first seen, and from then on advances with CLOCK_BOOTTIME, so that setting the
// wall clock back or forth changes neither an order nor an age. The kernel's stamps are
// in CLOCK_BOOTTIME too and convert exactly.
//
// Across a reboot nobody can tell a long time off from a wrong wall clock. Ages
// therefore do not grow while the node is off: see state.Records.Shift.
package clock

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/state"
)

// Sources are the machine's clocks.
type Sources struct {
	Boot func() time.Duration // CLOCK_BOOTTIME
	Wall func() time.Time
}

// System returns the clocks of this machine.
func System() Sources { return Sources{Boot: bootTime, Wall: time.Now} }

func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // fails only for an unknown clock
	}
	return time.Duration(ts.Nano())
}

// WallAt converts a CLOCK_BOOTTIME stamp to the wall clock as it stands now.
func (s Sources) WallAt(bootNS uint64) time.Time {
	return s.Wall().Add(time.Duration(bootNS) - s.Boot()).Round(time.Millisecond)
}

// BootID reads what tells this boot from others.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Clock tells ebb's time, and has its sources.
type Clock struct {
	Sources
	anchorWall time.Time // ebb's time at anchorBoot, without monotonic reading
	anchorBoot time.Duration
}

// New continues the clock of this boot if saved is of it, and otherwise starts one at
// the wall clock's time.
func New(saved state.Anchor, thisBoot string, s Sources) *Clock {
	c := &Clock{Sources: s, anchorWall: s.Wall().Round(0), anchorBoot: s.Boot()}
	if saved.BootID == thisBoot && !saved.Wall.IsZero() && saved.Boot <= c.anchorBoot {
		c.anchorWall, c.anchorBoot = saved.Wall, saved.Boot
	}
	return c
}

// Anchor is what New continues this clock from.
func (c *Clock) Anchor(thisBoot string) state.Anchor {
	return state.Anchor{BootID: thisBoot, Boot: c.anchorBoot, Wall: c.anchorWall}
}

// Now is ebb's time.
func (c *Clock) Now() time.Time { return c.anchorWall.Add(c.Boot() - c.anchorBoot) }

// AtBoot converts a CLOCK_BOOTTIME stamp.
func (c *Clock) AtBoot(ns uint64) time.Time {
	return c.anchorWall.Add(time.Duration(ns) - c.anchorBoot)
}

// End converts an end that the runtime dates by the wall clock, which may have been set
// before it or since: to the later of the two times that it can mean. One from before the
// boot, or that is still to come, tells nothing but that it was not later than now.
func (c *Clock) End(t time.Time) time.Time {
	now := c.Now()
	at := Latest(t.Round(0), c.FromWall(t))
	if at.Before(c.anchorWall.Add(-c.anchorBoot)) || at.After(now) {
		return now
	}
	return at
}

// FromWall converts a time that the runtime wrote by the wall clock. It is only as good
// as the wall clock was; a time in the future becomes now.
func (c *Clock) FromWall(t time.Time) time.Time {
	return c.Now().Add(-max(0, c.Wall().Sub(t)))
}

// Latest is the last of the times; the zero time if there are none.
func Latest(times ...time.Time) time.Time {
	if len(times) == 0 {
		return time.Time{}
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// OrNil is nil for the zero time: how a page leaves a time out.
func OrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Came reports whether a deadline has come; the zero time is none.
func Came(deadline, now time.Time) bool { return !deadline.IsZero() && !deadline.After(now) }

// Earliest is the first of the times, of which the zero time is none.
func Earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}
