package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/bpf"
)

// crossed answers the kernel's one event per crossing.
func (a *Agent) crossed(ctx context.Context, c bpf.Crossing) {
	if a.rt == nil || len(a.filesystems) == 0 {
		return // a line of an earlier run: the first look sets them anew
	}
	f := a.numbered(c.Dev)
	if f == nil {
		a.clearLine(c.Dev) // an earlier run's, or of what was unmounted just now
		return
	}
	if !c.Near {
		a.metrics.crossings.WithLabelValues(f.name()).Inc()
	}
	r, err := a.readDisk(ctx, f)
	switch {
	case err == nil && !f.lines.HighReached(r.Disk):
		f.reading = r // it has passed: a run just freed the space, or a writer did
		a.setLineAgain(f)
	case err == nil && a.putOff(f, r):
	case f.holdsImages():
		a.look(ctx, c.BootNS)
	default:
		a.tendTo(f, r, err)
	}
}

// tend reads a filesystem again and does what the reading asks for. It returns
// true if that was a look at everything.
func (a *Agent) tend(ctx context.Context, f *filesystem) (looked bool) {
	r, err := a.readDisk(ctx, f)
	if f.holdsImages() && (err != nil || f.lines.HighReached(r.Disk)) {
		if err == nil && a.putOff(f, r) {
			return false
		}
		a.look(ctx, 0)
		return true
	}
	a.tendTo(f, r, err)
	return false
}

// tendTo is for a reading that asks for no removal of images. If a filesystem
// without images is over its line, that is said, and what pods that have ended
// left behind is looked for.
func (a *Agent) tendTo(f *filesystem, r reading, err error) {
	if err != nil {
		a.log.Debug("read filesystem", "path", f.path, "error", err) // unmounted: the mounts will tell
		return
	}
	f.reading = r
	if f.lines.HighReached(r.Disk) {
		if !a.said.stands(f.topic()) {
			a.tidySoon(0)
		}
		a.said.once(a.log, f.topic(), slog.LevelInfo, "filesystem reached its line; no image is on it",
			"reason", "threshold", "filesystem", strings.Join(f.names, ","), "path", f.path,
			"used_percent", r.UsedPercent(), "inodes_used_percent", r.InodesUsedPercent())
	} else {
		a.said.clear(a.log, f.topic(), "filesystem is below its line again")
	}
	a.setLine(f)
}

// tendOthers brings the filesystems without images up to date.
func (a *Agent) tendOthers(ctx context.Context) {
	for _, f := range a.filesystems {
		if !f.holdsImages() {
			a.tend(ctx, f)
		}
	}
}

// tendDue reads the filesystems whose time has come.
func (a *Agent) tendDue(ctx context.Context) {
	now := a.clock.now()
	for _, f := range a.filesystems {
		if due := f.line.due; due.IsZero() || due.After(now) {
			continue
		}
		f.line.due = time.Time{}
		if a.tend(ctx, f) {
			break // all was read, and may be another by now
		}
	}
	for _, f := range a.filesystems {
		if !f.line.due.IsZero() {
			a.alarms.sooner(alarmLine, f.line.due)
		}
	}
}

// tendAt plans to read a filesystem again.
func (a *Agent) tendAt(f *filesystem, at time.Time) {
	if f.line.due.IsZero() || at.Before(f.line.due) {
		f.line.due = at
		a.alarms.sooner(alarmLine, at)
	}
}

// pollLater plans the next reading of a filesystem that is polled.
func (a *Agent) pollLater(f *filesystem) {
	if f.polls() {
		now := a.clock.now()
		a.alarms.sooner(alarmPoll, now.Add(f.pace.next(now, f.Disk, f.lines)))
	}
}

// poll reads the filesystems for which no line could be set in the kernel.
func (a *Agent) poll(ctx context.Context) {
	a.metrics.polls.Inc()
	a.alarms.set(alarmPoll, a.clock.now().Add(pollInterval))
	if a.rt == nil {
		return
	}
	for _, f := range a.filesystems {
		if f.line.kernel {
			continue
		}
		r, err := a.read(f)
		switch {
		case errors.Is(err, errMoved):
			a.look(ctx, 0) // which follows it
			return
		case err != nil && f.holdsImages():
			a.lookFailed(err)
			return
		case err == nil && (!f.line.polled(r, f.lines) || a.putOff(f, r)):
			f.reading = r
			a.pollLater(f)
		case f.holdsImages():
			a.look(ctx, uint64(a.boot()))
			return
		default:
			a.tendTo(f, r, err)
		}
	}
}
