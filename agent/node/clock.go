package node

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/state"
)

// clock is ebb's own time: it reads like the wall clock at the moment the boot
// was first seen, and from then on advances with CLOCK_BOOTTIME, so that
// setting the wall clock back or forth changes neither an order nor an age.
// The kernel's stamps are in CLOCK_BOOTTIME too and convert exactly.
//
// Across a reboot nobody can tell a long time off from a wrong wall clock.
// Ages therefore do not grow while the node is off: see state.Shift.
type clock struct {
	anchorWall time.Time // ebb time at anchorBoot, without monotonic reading
	anchorBoot time.Duration

	boot func() time.Duration // CLOCK_BOOTTIME
	wall func() time.Time
}

func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // fails only for an unknown clock
	}
	return time.Duration(ts.Nano())
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// newClock continues the clock of this boot if saved is of it, and otherwise
// starts one at the wall clock's time.
func newClock(saved state.Anchor, thisBoot string, boot func() time.Duration, wall func() time.Time) *clock {
	c := &clock{boot: boot, wall: wall, anchorWall: wall().Round(0), anchorBoot: boot()}
	if saved.BootID == thisBoot && !saved.Wall.IsZero() && saved.Boot <= c.anchorBoot {
		c.anchorWall, c.anchorBoot = saved.Wall, saved.Boot
	}
	return c
}

func (c *clock) now() time.Time { return c.anchorWall.Add(c.boot() - c.anchorBoot) }

// atBoot converts a CLOCK_BOOTTIME stamp.
func (c *clock) atBoot(ns uint64) time.Time {
	return c.anchorWall.Add(time.Duration(ns) - c.anchorBoot)
}

// end converts an end that the runtime dates by the wall clock, which may have been set
// before it or since: to the later of the two times that it can mean. One from before the
// boot, or that is still to come, tells nothing but that it was not later than now.
func (c *clock) end(t time.Time) time.Time {
	now := c.now()
	at := latest(t.Round(0), c.fromWall(t))
	if at.Before(c.anchorWall.Add(-c.anchorBoot)) || at.After(now) {
		return now
	}
	return at
}

// fromWall converts a time that the runtime wrote by the wall clock. It is
// only as good as the wall clock was; a time in the future becomes now.
func (c *clock) fromWall(t time.Time) time.Time {
	age := c.wall().Sub(t)
	if age < 0 {
		age = 0
	}
	return c.now().Add(-age)
}
