package watermark

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// earlySpacing is the least time between two answers to events that came too early. A filesystem
// can reserve space for writers and release it again; that could otherwise wake the agent as often
// as they write.
const earlySpacing = 500 * time.Millisecond

// Options are the dependencies of a Watcher.
type Options struct {
	Config     config.Config
	Disk       Disk
	Probes     Probes // nil: there are no kernel programs
	CatchUp    func() // attaches programs of new modules; called if a filesystem has none. It may release the lock
	Conditions *condition.Set
	Log        *slog.Logger
	Metrics    *Metrics
	Now        func() time.Time     // ebb's clock
	Boot       func() time.Duration // CLOCK_BOOTTIME

	// Outside calls f without the lock under which the Watcher is used, because f takes long. nil:
	// f is called directly.
	Outside func(f func())
}

// Watcher watches the filesystems of one node. Its methods are called under one lock. Those that
// wait for a disk release it in that time: see [Options].
type Watcher struct {
	o        *Options
	survey   survey
	kernel   kernelWatermarks
	polls    polls
	settling settling
}

// New returns a Watcher that has found nothing yet: see Place and Survey.
func New(o Options) *Watcher {
	if o.Outside == nil {
		o.Outside = func(f func()) { f() }
	}
	return &Watcher{
		o:        &o,
		survey:   survey{disk: o.Disk, boot: o.Boot, outside: o.Outside, log: o.Log, directories: newDirectories(o.Config)},
		kernel:   kernelWatermarks{probes: o.Probes, attach: o.CatchUp, conditions: o.Conditions, log: o.Log},
		polls:    polls{now: o.Now},
		settling: settling{o: &o},
	}
}

// Place takes over the directories that the runtime reports.
func (w *Watcher) Place(roots inventory.Roots) { w.survey.place(roots) }

// Named returns the filesystem of a directory, or an error with the reason why there is none.
func (w *Watcher) Named(name string) (*Filesystem, error) { return w.survey.named(name) }

// Filesystems returns the watched filesystems. The slice is never modified; Survey makes another.
func (w *Watcher) Filesystems() []*Filesystem { return w.survey.filesystems }

// Survey checks where the directories are now and follows those that moved: something was mounted
// over them or unmounted, they appeared or disappeared, or a project quota began or ended. It
// returns false if all are where they were. That is cheap to find out.
func (w *Watcher) Survey() (moved bool) {
	gone, moved := w.survey.follow()
	for _, f := range gone {
		w.drop(f)
	}
	if moved {
		for _, f := range w.survey.filesystems {
			if !f.HoldsImages() { // no plan is made for it any more, which would end its hold
				f.backoff, f.holdCheckAt = backoff{}, time.Time{}
			}
		}
		w.publish()
	}
	return moved
}

// drop ends the watching of a filesystem.
func (w *Watcher) drop(f *Filesystem) {
	w.o.Log.Info("a filesystem is no longer watched", "filesystem", strings.Join(f.Names, ","), "path", f.Path,
		"reason", "something was mounted or unmounted there, the directory went, or the limit of a project changed")
	w.o.Conditions.Drop(f.thresholdTopic())
	w.o.Conditions.Drop(f.lateTopic())
	w.o.Conditions.Drop(f.kernelTopic())
	if !f.Project.Limited { // a project has no watermark, but the whole filesystem may have one
		w.kernel.clear(f.Dev)
	}
}

// Demand is what a reading asks of the loop.
type Demand struct {
	// Images asks for a look at the images: their filesystem needs space, or another one is there.
	Images bool
	// Since is the CLOCK_BOOTTIME, in ns, of the event that led to Images; 0: none that happened
	// just now.
	Since uint64
	// Workloads asks to remove what pods that have ended left behind: a filesystem
	// without images has reached its threshold.
	Workloads bool
	// Err is why a filesystem with images cannot be read.
	Err error
}

// Crossed handles a crossing, for which the kernel sends one event.
func (w *Watcher) Crossed(ctx context.Context, c bpf.Crossing) Demand {
	if len(w.survey.filesystems) == 0 {
		return Demand{} // a threshold of an earlier run: the first look sets all again
	}
	f := w.survey.numbered(c.Dev)
	if f == nil {
		w.kernel.clear(c.Dev) // of an earlier run, or of a filesystem that was just unmounted
		return Demand{}
	}
	if !c.Near {
		w.o.Metrics.crossings.WithLabelValues(f.name()).Inc()
	}
	err := w.ReadExact(ctx, f)
	switch {
	case err == nil && !f.HighReached():
		w.crossedEarly(f) // a run just freed the space, or a writer did
		return Demand{}
	case err == nil && f.postponed(w.o.Now()):
		return Demand{}
	case f.HoldsImages():
		return Demand{Images: true, Since: c.BootNS}
	}
	return w.noReclaim(f, err)
}

// crossedEarly sets the threshold again after an event that came too early. The second one in a
// short time is not answered at once, but with a reading a little later.
func (w *Watcher) crossedEarly(f *Filesystem) {
	now := w.o.Now()
	if next := f.earlyAt.Add(earlySpacing); now.Before(next) {
		f.recheck(next)
		f.earlyAt = next
		return
	}
	f.earlyAt = now
	w.arm(f)
}

// Looked is called after the images were looked at, and their filesystems read. It sets their
// thresholds again and brings the other filesystems up to date.
func (w *Watcher) Looked(ctx context.Context) (d Demand) {
	for _, f := range w.survey.filesystems {
		if f.HoldsImages() {
			w.arm(f)
		}
	}
	for _, f := range w.survey.filesystems {
		if !f.HoldsImages() {
			d.Workloads = w.noReclaim(f, w.ReadExact(ctx, f)).Workloads || d.Workloads
		}
	}
	return d
}

// noReclaim handles a reading that asks for no removal of images. If a filesystem without images is
// over its threshold, it logs that and asks to remove what ended pods left behind.
func (w *Watcher) noReclaim(f *Filesystem, err error) (d Demand) {
	if err != nil {
		w.o.Log.Debug("read filesystem", "path", f.Path, "error", err) // unmounted: a mount event follows
		return d
	}
	if f.HighReached() {
		d.Workloads = !w.o.Conditions.Holds(f.thresholdTopic())
		w.o.Conditions.Begin(f.thresholdTopic(), slog.LevelInfo, "filesystem reached its high threshold; no image is on it",
			"reason", "threshold", "filesystem", strings.Join(f.Names, ","), "path", f.Path,
			"used_percent", f.UsedPercent(), "inodes_used_percent", f.InodesUsedPercent())
	} else {
		w.o.Conditions.End(f.thresholdTopic(), "filesystem is below its high threshold again")
	}
	w.arm(f)
	return d
}

// arm gives the kernel the threshold for a filesystem as it was last read.
func (w *Watcher) arm(f *Filesystem) {
	if w.kernel.catchUp(f); !w.survey.watches(f) {
		return
	}
	f.recheckAt = time.Time{}
	f.rate()
	if f.HoldsImages() && !f.above {
		w.o.Conditions.Drop(f.thresholdTopic()) // the outcome has been logged
	}
	if !f.Believing() { // a removal since would have begun to believe again
		w.o.Conditions.End(f.lateTopic(), "the freed space has not shown in time; the disk's figure counts again")
	}
	if w.kernel.arm(f) {
		w.publish()
	}
	w.polls.review(w.survey.filesystems)
	if !f.Kernel {
		w.polls.plan(f)
		return
	}
	// The kernel missed any allocation between the reading and the threshold, and that may have
	// been the last one.
	r, err := w.survey.read(f)
	switch {
	case err != nil || f.above:
	case f.Thresholds.HighReached(r.Disk):
		f.recheck(w.o.Now())
	case f.Thresholds.HighReached(w.kernel.counted(r)):
		f.recheck(w.o.Now().Add(earlySpacing))
	}
}

// Planned takes in the hold of the latest plan for a filesystem; nil if it has none.
func (w *Watcher) Planned(f *Filesystem, hold *image.Hold) {
	now := w.o.Now()
	f.backoff.looked(hold, now)
	f.backoff.disk = f.Disk
	if f.holdCheckAt = (time.Time{}); hold != nil {
		f.holdCheckAt = now.Add(holdInterval)
	}
}

// HoldsMayEnd is called when containers, images or pods change: it shortens the back-off of holds.
func (w *Watcher) HoldsMayEnd() {
	for _, f := range w.survey.filesystems {
		f.backoff.changed(w.o.Now())
	}
}

// Next is the next deadline; zero if there is none. See PollDue and Recheck.
func (w *Watcher) Next() time.Time {
	next := w.polls.at
	for _, f := range w.survey.filesystems {
		next = clock.Earliest(next, clock.Earliest(f.recheckAt, f.holdCheckAt))
	}
	return next
}

// Recheck reads the filesystems whose deadline has come. It stops at the first one that asks for a
// look at the images: the look reads all, and they may be others by the next call.
func (w *Watcher) Recheck(ctx context.Context) (d Demand) {
	now := w.o.Now()
	for _, f := range w.survey.filesystems {
		if clock.Came(f.holdCheckAt, now) {
			f.holdCheckAt = now.Add(holdInterval)
			if r, err := w.survey.read(f); err == nil && f.endsHold(r) {
				d.Images = true
				return d
			}
		}
		if !clock.Came(f.recheckAt, now) {
			continue
		}
		f.recheckAt = time.Time{}
		err := w.ReadExact(ctx, f)
		switch {
		case !f.HoldsImages() || err == nil && !f.HighReached():
			d.Workloads = w.noReclaim(f, err).Workloads || d.Workloads
		case err != nil || !f.postponed(w.o.Now()):
			d.Images = true
			return d
		}
	}
	return d
}

// PollDue reports whether it is time for Poll, once for each deadline. A look may replace the Poll.
func (w *Watcher) PollDue() bool { return w.polls.due() }

// Poll reads the filesystems that the kernel does not watch.
func (w *Watcher) Poll() (d Demand) {
	w.o.Metrics.polls.Inc()
	w.polls.begin()
	for _, f := range w.survey.filesystems {
		if f.Kernel {
			continue
		}
		r, err := w.survey.read(f)
		switch {
		case errors.Is(err, errMoved):
			d.Images = true // the look follows the move
			return d
		case err != nil && f.HoldsImages():
			d.Err = err
			return d
		case err != nil:
			w.noReclaim(f, err)
			continue
		}
		w.take(f, r)
		switch {
		case !f.deserves(r) || f.postponed(w.o.Now()):
			w.polls.plan(f)
		case f.HoldsImages():
			d.Images, d.Since = true, uint64(w.o.Boot())
			return d
		default:
			d.Workloads = w.noReclaim(f, nil).Workloads || d.Workloads
		}
	}
	return d
}
