package node

import (
	"log/slog"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// believedFor is how long the computed figure is believed of what the disk does not
// show; believedLagging, where it shows nothing before a commit (btrfs makes one
// every 30 s).
const (
	believedFor     = 5 * time.Second
	believedLagging = 35 * time.Second
)

// belief is what removals have freed by computation since the disk's figure could
// last be made true. Without it, other images would go in place of those that went
// already, because the disk does not show it yet.
type belief struct {
	bytes, inodes         uint64
	fromBytes, fromInodes uint64    // what was available before them: growth since then is shown already
	until                 time.Time // then the disk's word counts; zero: nothing is believed
}

func (b *belief) none() bool { return b.until.IsZero() }

// disk is the latest reading with what is believed beyond it.
func (f *filesystem) disk() image.Disk {
	d, b := f.Disk, &f.believed
	beyond := func(available, capacity, believed, from uint64) uint64 {
		hidden := believed - min(believed, gained(from, available))
		return max(available, min(available+hidden, capacity))
	}
	d.AvailableBytes = beyond(d.AvailableBytes, d.CapacityBytes, b.bytes, b.fromBytes)
	d.InodesAvailable = beyond(d.InodesAvailable, d.Inodes, b.inodes, b.fromInodes)
	return d
}

// believe counts a removal as done as computed, for a while.
func (a *Agent) believe(f *filesystem, d image.Decision, before, after measured) {
	b := &f.believed
	if b.none() {
		wait := believedFor
		if lags(f.Type) {
			wait = believedLagging
		}
		*b = belief{until: a.clock.now().Add(wait), fromBytes: before.AvailableBytes, fromInodes: before.InodesAvailable}
	}
	b.bytes += d.FreesBytes
	b.inodes += d.FreesInodes
	b.fromBytes, b.fromInodes = min(b.fromBytes, before.AvailableBytes), min(b.fromInodes, before.InodesAvailable)
	a.alarms.sooner(alarmRetry, b.until)
	a.said.once(a.log, f.lateTopic(), slog.LevelWarn, "the disk does not show yet what was removed; going on with what was computed",
		"reason", "shortfall", "path", f.path, "image", d.ImageID, "freed_bytes", after.cameFree(before), "computed_bytes", d.FreesBytes)
}

// shown ends the belief: the figure is true, or was waited for long enough.
func (a *Agent) shown(f *filesystem, settled bool) {
	if settled {
		a.said.clear(a.log, f.lateTopic(), "the disk shows what was removed")
	}
	if settled || !a.clock.now().Before(f.believed.until) {
		f.believed = belief{}
	}
}

func (f *filesystem) lateTopic() string { return "late " + f.topic() }
