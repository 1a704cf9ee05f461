package watermark

import (
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// Reading is one exact reading of a filesystem.
type Reading struct {
	image.Disk
	fs.Info
}

// identity tells filesystems apart.
type identity struct {
	dev     uint64
	project fs.Project
}

func (r Reading) identity() identity { return identity{r.Dev, r.Project} }

// Filesystem is a watched superblock: one, however many directories are on it, with one threshold
// in the kernel. A directory with a project quota is on a Filesystem of its own.
type Filesystem struct {
	Names      []string     // of the directories on it, in the order of [Names]
	Path       string       // the path that it is read by
	Thresholds image.Policy // where there are no images, only the high ones
	Reading                 // the latest
	Spare      image.Size   // available in addition, had the agent removed what it only observes
	Kernel     bool         // the kernel watches the threshold; otherwise the filesystem is polled

	sourceLogged bool       // Kernel was logged
	above        bool       // at the latest reading it had reached its high threshold
	worseAt      image.Size // available; where it is looked at again

	deadlines
	exactness
	pace    pace     // of polls
	filling fillRate // shared with scrapes
	backoff backoff  // on hold
	past    past
}

// deadlines are those of one filesystem.
type deadlines struct {
	earlyAt     time.Time // when an event that came too early was, or will be, answered
	recheckAt   time.Time // when to read and set the threshold again; zero: not planned
	holdCheckAt time.Time // on hold: when to check whether others have ended it; zero: no hold
}

// worseStep is how much fuller a filesystem that is above its threshold must get to be
// looked at again: one percentage point, as for [image.Hold].
const worseStep = 100

func (f *Filesystem) name() string { return f.Names[0] }

// Device returns the device number as mountinfo has it.
func (f *Filesystem) Device() string { return fmt.Sprintf("%d:%d", f.Dev>>20, f.Dev&(1<<20-1)) }

// HoldsImages reports whether removing images helps here.
func (f *Filesystem) HoldsImages() bool { return f.name() == Images || f.name() == Content }

// Above reports whether the filesystem had reached its high threshold when the threshold was last
// set, or at the latest poll.
func (f *Filesystem) Above() bool { return f.above }

// HighReached reports whether the latest reading is at the high threshold or beyond.
func (f *Filesystem) HighReached() bool { return f.Thresholds.HighReached(f.Disk) }

// With returns a disk with Spare added to what is available.
func (f *Filesystem) With(d image.Disk) image.Disk {
	d.AvailableBytes, d.InodesAvailable = min(d.AvailableBytes+f.Spare.Bytes, d.CapacityBytes), min(d.InodesAvailable+f.Spare.Inodes, d.Inodes)
	return d
}

// polled reports whether the filesystem is read by timer: the kernel does not watch it, and
// something can be done there. Others are read with each look.
func (f *Filesystem) polled() bool {
	return !f.Kernel && (f.HoldsImages() || f.Project.Limited)
}

// Lags reports whether statfs shows writes and deletions only after a commit.
func (f *Filesystem) Lags() bool { return f.Type == "btrfs" }

// dirtyDecides reports whether what is written but not allocated yet can decide a plan: with it the high
// threshold is reached, or only with it the low one is exceeded.
func (f *Filesystem) dirtyDecides(shown, counted image.Disk) bool {
	low := image.LowAvailable(shown.CapacityBytes, f.Thresholds.LowPercent)
	return f.Thresholds.HighReached(counted) || shown.AvailableBytes >= low && counted.AvailableBytes < low
}

// recheck plans to read the filesystem again, at that time or earlier.
func (f *Filesystem) recheck(at time.Time) { f.recheckAt = clock.Earliest(f.recheckAt, at) }

// add puts a directory on the filesystem. The first one sets its path, thresholds and reading.
func (f *Filesystem) add(d *directory, r Reading) {
	d.on = f
	f.Names = append(f.Names, d.name)
	if len(f.Names) == 1 {
		f.Path, f.Thresholds, f.Reading = d.path, d.thresholds, r
		return
	}
	if !f.HoldsImages() {
		f.Thresholds.HighPercent = min(f.Thresholds.HighPercent, d.thresholds.HighPercent)
		f.Thresholds.InodesHighPercent = min(f.Thresholds.InodesHighPercent, d.thresholds.InodesHighPercent)
	}
}

// deserves reports whether a polled reading needs action: the high threshold is newly reached, or
// the disk got worse by a point since it was.
func (f *Filesystem) deserves(r Reading) bool {
	high := f.Thresholds.HighReached(r.Disk)
	worse := r.Disk.AvailableBytes <= f.worseAt.Bytes || r.Disk.Inodes > 0 && r.Disk.InodesAvailable <= f.worseAt.Inodes
	if high && (!f.above || worse) {
		return true
	}
	f.above = high
	return false
}

// rate sets above and worseAt from the latest reading.
func (f *Filesystem) rate() {
	f.above = f.HighReached()
	f.worseAt.Bytes = worse(f.CapacityBytes, f.AvailableBytes, f.Spare.Bytes, f.Thresholds.HighPercent)
	f.worseAt.Inodes = worse(f.Inodes, f.InodesAvailable, f.Spare.Inodes, f.Thresholds.InodesHighPercent)
}

// worse returns the available amount at which a filesystem above a high threshold is looked at
// again: its own threshold if that is not reached, else one percentage point less, or where it would reach
// the threshold even with its spare space.
func worse(capacity, available, spare uint64, highPercent int) uint64 {
	at := available - min(capacity/worseStep, available)
	raise, on := image.RaiseAt(capacity, highPercent)
	if on && available > raise {
		return raise
	}
	if would := raise - min(spare, raise); on && spare > 0 && would < available {
		return max(at, would)
	}
	return at
}

// kernelWatermark converts the high thresholds into blocks. While the filesystem is above
// its threshold, the next event is due when it is one percentage point worse.
func (f *Filesystem) kernelWatermark() bpf.Watermark {
	r, p := f.Reading, f.Thresholds
	watermark := bpf.Watermark{Reserved: r.Free - min(r.Avail, r.Free), Free: r.Free}
	if raise, on := image.RaiseAt(r.Disk.CapacityBytes, p.HighPercent); on {
		watermark.RaiseFree = raise / r.BlockSize
		watermark.RearmFree = watermark.RaiseFree + 1
		if r.Disk.AvailableBytes <= raise {
			watermark.WorseFree = 1 // nothing is available: it cannot get worse
			if r.Disk.AvailableBytes > 0 {
				watermark.WorseFree = max(1, f.worseAt.Bytes/r.BlockSize)
			}
		}
	}
	if raise, on := image.RaiseAt(r.Disk.Inodes, p.InodesHighPercent); on && r.Disk.Inodes > 0 {
		watermark.RaiseInodes = raise
		watermark.RearmInodes = raise + 1
		if r.Disk.InodesAvailable <= raise {
			watermark.WorseInodes = max(1, f.worseAt.Inodes)
		}
	}
	return watermark
}

// Topics of the conditions of a filesystem.
func (f *Filesystem) thresholdTopic() string { return "threshold of " + f.Path }
func (f *Filesystem) kernelTopic() string    { return "kernel " + f.thresholdTopic() }
func (f *Filesystem) lateTopic() string      { return "late " + f.thresholdTopic() }
