// Package clock is ebb's own clock. It starts at the time of the wall clock when ebb first runs in a
// boot, and then advances with CLOCK_BOOTTIME. So setting the wall clock back or forth changes neither
// an order nor an age. The kernel's stamps are in CLOCK_BOOTTIME, too, and convert exactly.
//
// After a reboot, ebb cannot distinguish a long time off from a wrong wall clock. So ages do not grow
// while the node is off: see state.Records.Shift.
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

// WallAt converts a CLOCK_BOOTTIME stamp to the wall clock as it is set now, rounded to a millisecond.
func (s Sources) WallAt(bootNS uint64) time.Time {
	return s.Wall().Add(time.Duration(bootNS) - s.Boot()).Round(time.Millisecond)
}

// BootID returns the kernel's ID of this boot.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Clock is ebb's clock, with its sources.
type Clock struct {
	Sources
	anchorWall time.Time // ebb's time at anchorBoot, without monotonic reading
	anchorBoot time.Duration
}

// New continues the saved clock if it is of this boot. Otherwise it starts one at the wall clock's
// time.
func New(saved state.Anchor, thisBoot string, s Sources) *Clock {
	c := &Clock{Sources: s, anchorWall: s.Wall().Round(0), anchorBoot: s.Boot()}
	if saved.BootID == thisBoot && !saved.Wall.IsZero() && saved.Boot <= c.anchorBoot {
		c.anchorWall, c.anchorBoot = saved.Wall, saved.Boot
	}
	return c
}

// Anchor returns what New needs to continue this clock.
func (c *Clock) Anchor(thisBoot string) state.Anchor {
	return state.Anchor{BootID: thisBoot, Boot: c.anchorBoot, Wall: c.anchorWall}
}

// Now returns ebb's time.
func (c *Clock) Now() time.Time { return c.anchorWall.Add(c.Boot() - c.anchorBoot) }

// AtBoot converts a CLOCK_BOOTTIME stamp to ebb's time.
func (c *Clock) AtBoot(ns uint64) time.Time {
	return c.anchorWall.Add(time.Duration(ns) - c.anchorBoot)
}

// End converts an end that the runtime dates by the wall clock. The wall clock may have been set before
// that end or since, so the date can mean two times: End returns the later one that is possible. If
// both are before the boot or in the future, the date proves only that the end was not later than now:
// then End returns now.
func (c *Clock) End(t time.Time) time.Time {
	now, at := c.Now(), time.Time{}
	if raw := t.Round(0); !raw.After(now) {
		at = raw
	}
	if ago := c.Wall().Sub(t); ago >= 0 {
		at = Latest(at, now.Add(-ago))
	}
	if at.Before(c.anchorWall.Add(-c.anchorBoot)) {
		return now
	}
	return at
}

// FromWall converts a time that the runtime wrote by the wall clock. The result is only as exact as the
// wall clock was; a time in the future becomes now.
func (c *Clock) FromWall(t time.Time) time.Time {
	return c.Now().Add(-max(0, c.Wall().Sub(t)))
}

// Latest returns the last of the times; the zero time if there are none.
func Latest(times ...time.Time) time.Time {
	if len(times) == 0 {
		return time.Time{}
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// OrNil returns nil for the zero time, so that a page leaves it out.
func OrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Came reports whether a deadline has come. The zero time is no deadline.
func Came(deadline, now time.Time) bool { return !deadline.IsZero() && !deadline.After(now) }

// Earliest returns the first of the times, and ignores zero times; the zero time if there are no
// others.
func Earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}
