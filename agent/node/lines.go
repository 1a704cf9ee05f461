package node

import (
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
}

// worseStep is how much fuller a disk that is above its line must get to be
// looked at again: one percentage point, as for [image.Hold].
const worseStep = 100

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
	if err == nil && !a.line.above && p.HighReached(r.Disk) {
		a.alarms.set(alarmRetry, a.clock.now())
	}
}

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
	if a.probes == nil || a.reading.Type != "ext4" {
		return false
	}
	if a.line.dev != 0 && a.line.dev != a.reading.Dev {
		if err := a.probes.ClearLine(a.line.dev); err != nil {
			a.log.Debug("clear the line of the former filesystem", "error", err)
		}
	}
	if err := a.probes.SetLine(a.reading.Dev, a.kernelLine(p)); err != nil {
		a.said.once(a.log, "line", slog.LevelWarn, "the kernel's line cannot be set", "error", err)
		return false
	}
	a.said.clear(a.log, "line", "the kernel's line can be set again")
	return true
}

// kernelLine converts the policy's high lines into what the kernel counts:
// free blocks as statfs's f_bfree has them, which include the blocks that
// unprivileged writers cannot get. While the disk is above its line, the next
// event is due when it is one percentage point worse.
func (a *Agent) kernelLine(p image.Policy) bpf.Line {
	r := a.reading
	reserved := r.Free - r.Avail
	var line bpf.Line
	if raise, on := image.RaiseAt(r.Disk.CapacityBytes, p.HighPercent); on {
		line.RaiseFree = raise/r.BlockSize + reserved
		line.RearmFree = line.RaiseFree + 1
		if r.Disk.AvailableBytes <= raise {
			line.WorseFree = 1 // nothing is available: it cannot get worse
			if r.Disk.AvailableBytes > 0 {
				line.WorseFree = max(1, a.line.worseAt/r.BlockSize+reserved)
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
