package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
)

// lineState is what the loop knows of its line in the kernel.
type lineState struct {
	dev     uint64
	kernel  bool // the kernel raises it; otherwise the disk is polled
	above   bool // at the latest look the disk had reached its high line
	worseAt uint64
	early   time.Time // when an event that came too early was, or will be, answered
}

// worseStep is how much fuller a disk that is above its line must get to be
// looked at again: one percentage point, as for [image.Hold].
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

// setLine gives the kernel the line for the filesystem as it was last read.
func (a *Agent) setLine() {
	p := a.cfg.Policy()
	a.line.above = p.HighReached(a.reading.Disk)
	step := a.reading.Disk.CapacityBytes / worseStep
	a.line.worseAt = a.reading.Disk.AvailableBytes - min(step, a.reading.Disk.AvailableBytes)
	if !a.armKernel(p) {
		a.alarms.sooner(alarmPoll, a.clock.now().Add(pollInterval))
		return
	}
	// An allocation between the reading and the line has been overlooked, and
	// may have been the last one.
	r, err := a.stat()
	switch {
	case err != nil || a.line.above:
	case p.HighReached(r.Disk):
		a.alarms.set(alarmRetry, a.clock.now())
	case p.HighReached(a.counted(r)):
		a.alarms.sooner(alarmRetry, a.clock.now().Add(earlySpacing))
	}
}

// setLineAgain is for an event that came too early. The second one in a short
// time is not answered with a line at once, but with a look a little later.
func (a *Agent) setLineAgain() {
	now := a.clock.now()
	if next := a.line.early.Add(earlySpacing); now.Before(next) {
		a.alarms.sooner(alarmRetry, next)
		a.line.early = next
		return
	}
	a.line.early = now
	a.setLine()
}

// counted is the disk as the kernel's programs count it, where they know more
// than statfs does: on btrfs, what is written but not committed.
func (a *Agent) counted(r reading) image.Disk {
	d := r.Disk
	if a.probes == nil || r.Dev != a.line.dev {
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

// readDisk reads the disk for a decision. On a filesystem whose statfs lags the
// figure is made true first, if by any account the line is reached: it may be
// too low after writes, too high after deletes.
func (a *Agent) readDisk(ctx context.Context) (reading, error) {
	r, err := a.stat()
	if err != nil || !lags(r.Type) || !a.cfg.Policy().HighReached(a.counted(r)) {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	if _, err := a.disk.Settle(ctx, a.root); err != nil {
		a.log.Debug("settle", "error", err)
		a.metrics.unsettled.Inc()
	}
	return a.stat()
}

// lags: statfs shows what was written or deleted only after a commit.
func lags(fsType string) bool { return fsType == "btrfs" }

// armKernel sets the line in the kernel; false means that it cannot be done
// and the disk must be polled.
func (a *Agent) armKernel(p image.Policy) bool {
	was := a.line.kernel
	a.line.kernel = a.tryArm(p)
	if a.line.kernel {
		a.alarms.set(alarmPoll, time.Time{})
	}
	if a.line.kernel != was || a.line.dev != a.reading.Dev {
		a.line.dev = a.reading.Dev
		a.metrics.lineSource(a.line.kernel)
		if a.line.kernel {
			a.log.Info("the kernel watches the image filesystem", "path", a.root, "type", a.reading.Type, "reason", "line set")
		} else {
			a.log.Warn("the kernel cannot watch this filesystem; reading it every "+pollInterval.String(),
				"path", a.root, "type", a.reading.Type, "reason", "no program for it")
		}
	}
	return a.line.kernel
}

func (a *Agent) tryArm(p image.Policy) bool {
	if !a.canWatch(a.reading.Type) {
		return false
	}
	if a.line.dev != 0 && a.line.dev != a.reading.Dev {
		if err := a.probes.ClearLine(a.line.dev); err != nil {
			a.log.Debug("clear the line of the former filesystem", "error", err)
		}
	}
	if err := a.probes.SetLine(a.reading.Dev, a.reading.Type, a.kernelLine(p)); err != nil {
		a.said.once(a.log, "line", slog.LevelWarn, "the kernel's line cannot be set", "error", err)
		return false
	}
	a.said.clear(a.log, "line", "the kernel's line can be set again")
	return true
}

// kernelLine converts the policy's high lines into blocks. While the disk is
// above its line, the next event is due when it is one percentage point worse.
func (a *Agent) kernelLine(p image.Policy) bpf.Line {
	r := a.reading
	line := bpf.Line{Reserved: r.Free - min(r.Avail, r.Free)}
	if raise, on := image.RaiseAt(r.Disk.CapacityBytes, p.HighPercent); on {
		line.RaiseFree = raise / r.BlockSize
		line.RearmFree = line.RaiseFree + 1
		if r.Disk.AvailableBytes <= raise {
			line.WorseFree = 1 // nothing is available: it cannot get worse
			if r.Disk.AvailableBytes > 0 {
				line.WorseFree = max(1, a.line.worseAt/r.BlockSize)
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
