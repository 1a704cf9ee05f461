package node

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// lineState is what the loop knows of a filesystem's line in the kernel.
type lineState struct {
	kernel  bool // the kernel raises it; otherwise the filesystem is polled
	told    bool // and that was said
	above   bool // at the latest reading the filesystem had reached its high line
	worseAt uint64
	early   time.Time // when an event that came too early was, or will be, answered
	due     time.Time // when to read again and set the line anew; zero: not planned
}

// worseStep is how much fuller a filesystem that is above its line must get to
// be looked at again: one percentage point, as for [image.Hold].
const worseStep = 100

// earlySpacing is the least time from one event that came too early to the
// next. What a filesystem promises to writers and takes back again could
// otherwise wake the agent as often as they write.
const earlySpacing = 500 * time.Millisecond

// polled reports whether a polled reading deserves a look: the high line is
// newly reached, or the disk got worse by a point since it was.
func (l *lineState) polled(r reading, p image.Policy) bool {
	high := p.HighReached(r.Disk)
	if high && (!l.above || r.Disk.AvailableBytes <= l.worseAt) {
		return true
	}
	l.above = high
	return false
}

// setLines sets the lines of all filesystems with images.
func (a *Agent) setLines() {
	for _, s := range a.stores {
		a.setLine(s.filesystem)
	}
}

// setLine gives the kernel the line for a filesystem as it was last read.
func (a *Agent) setLine(f *filesystem) {
	f.line.due = time.Time{}
	f.line.above = f.lines.HighReached(f.Disk)
	if f.holdsImages() && !f.line.above {
		a.said.forget(f.topic()) // that it reached its line; what came of that has been said
	}
	step := f.CapacityBytes / worseStep
	f.line.worseAt = f.AvailableBytes - min(step, f.AvailableBytes)
	if !a.armKernel(f) {
		a.pollLater(f)
		return
	}
	// An allocation between the reading and the line has been overlooked, and
	// may have been the last one.
	r, err := a.read(f)
	switch {
	case err != nil || f.line.above:
	case f.lines.HighReached(r.Disk):
		a.tendAt(f, a.clock.now())
	case f.lines.HighReached(a.counted(r)):
		a.tendAt(f, a.clock.now().Add(earlySpacing))
	}
}

// setLineAgain is for an event that came too early. The second one in a short
// time is not answered with a line at once, but with a reading a little later.
func (a *Agent) setLineAgain(f *filesystem) {
	now := a.clock.now()
	if next := f.line.early.Add(earlySpacing); now.Before(next) {
		a.tendAt(f, next)
		f.line.early = next
		return
	}
	f.line.early = now
	a.setLine(f)
}

// counted is the disk as the kernel's programs count it, where they know more
// than statfs does: on btrfs, what is written but not committed.
func (a *Agent) counted(r reading) image.Disk {
	d := r.Disk
	if a.probes == nil {
		return d
	}
	free, ok, err := a.probes.Counted(r.Dev)
	if err != nil {
		a.log.Debug("read the kernel's figure", "error", err)
	}
	if ok {
		d.AvailableBytes = min(d.AvailableBytes, free*r.BlockSize)
	}
	return d
}

// readDisk reads a filesystem for a decision. Where statfs lags, the figure is
// made true first, if by any account the line is reached: it may be too low
// after writes, too high after deletes. If that takes too long the figure at hand
// has to do, with what is believed of the agent's own removals.
func (a *Agent) readDisk(ctx context.Context, f *filesystem) (reading, error) {
	r, err := a.read(f)
	late := !f.believed.none()
	if err != nil || !late && (!lags(r.Type) || !f.lines.HighReached(a.counted(r))) {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, showDeadline)
	defer cancel()
	_, err = a.disk.Settle(ctx, f.path)
	if err != nil {
		a.metrics.unsettled.Inc()
		a.log.Debug("settle", "error", err)
	}
	if late {
		a.shown(f, err == nil)
	}
	return a.read(f)
}

// lags: statfs shows what was written or deleted only after a commit.
func lags(fsType string) bool { return fsType == "btrfs" }

// armKernel sets the line in the kernel; false means that it cannot be done.
func (a *Agent) armKernel(f *filesystem) bool {
	was := f.line
	f.line.kernel = a.tryArm(f)
	if !was.told || f.line.kernel != was.kernel {
		f.line.told = true
		a.publish()
		a.saySource(f)
	}
	if !slices.ContainsFunc(a.filesystems, (*filesystem).polls) {
		a.alarms.set(alarmPoll, time.Time{})
	}
	return f.line.kernel
}

func (a *Agent) saySource(f *filesystem) {
	about := []any{"filesystem", strings.Join(f.names, ","), "path", f.path, "type", f.Type}
	switch {
	case f.line.kernel:
		a.log.Info("the kernel watches a filesystem", append(about, "reason", "line set")...)
	case f.Project.Limited:
		a.log.Warn("a project's limit holds here, and the kernel's line is of the whole filesystem; reading it every "+pollInterval.String()+" or sooner",
			append(about, "project", f.Project.ID, "reason", limitReason(f.Project), "way_out", "take the limit away, or use a filesystem of its own in place of a quota")...)
	case f.holdsImages():
		a.log.Warn("the kernel cannot watch this filesystem; reading it every "+pollInterval.String(),
			append(about, "reason", "no program for it")...)
	default:
		a.log.Info("the kernel cannot watch this filesystem; it is read now and then", append(about, "reason", "no program for it")...)
	}
}

func limitReason(p fs.Project) string {
	if p.Unsure {
		return "a project that may have a quota; to ask takes Linux 5.14 and CAP_SYS_ADMIN"
	}
	return "project quota"
}

// tryArm: the kernel's counters are of the whole filesystem, so that they tell nothing
// of a project's limit.
func (a *Agent) tryArm(f *filesystem) bool {
	if f.Project.Limited || !a.canWatch(f.Type) {
		return false
	}
	topic := "kernel " + f.topic()
	if err := a.probes.SetLine(f.Dev, f.Type, f.kernelLine()); err != nil {
		a.said.once(a.log, topic, slog.LevelWarn, "the kernel's line cannot be set", "path", f.path, "error", err)
		return false
	}
	a.said.clear(a.log, topic, "the kernel's line can be set again")
	return true
}

// kernelLine converts the high lines into blocks. While the filesystem is above
// its line, the next event is due when it is one percentage point worse.
func (f *filesystem) kernelLine() bpf.Line {
	r, p := f.reading, f.lines
	line := bpf.Line{Reserved: r.Free - min(r.Avail, r.Free), Free: r.Free}
	if raise, on := image.RaiseAt(r.Disk.CapacityBytes, p.HighPercent); on {
		line.RaiseFree = raise / r.BlockSize
		line.RearmFree = line.RaiseFree + 1
		if r.Disk.AvailableBytes <= raise {
			line.WorseFree = 1 // nothing is available: it cannot get worse
			if r.Disk.AvailableBytes > 0 {
				line.WorseFree = max(1, f.line.worseAt/r.BlockSize)
			}
		}
	}
	if raise, on := image.RaiseAt(r.Disk.Inodes, p.InodesHighPercent); on && r.Disk.Inodes > 0 {
		line.RaiseInodes = raise
		line.RearmInodes = raise + 1
		if r.Disk.InodesAvailable <= raise {
			line.WorseInodes = max(1, r.Disk.InodesAvailable-min(r.Disk.Inodes/worseStep, r.Disk.InodesAvailable))
		}
	}
	return line
}
