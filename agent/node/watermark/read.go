package watermark

import (
	"context"
	"log/slog"
	"time"
)

const (
	// showDeadline bounds the wait for a filesystem's figure to become exact.
	showDeadline = 3 * time.Second

	// fullSoon is how soon a disk that fills fast is full, at its pace.
	fullSoon = 10 * time.Second

	// fillLook is how long its growth is watched before it is made exact.
	fillLook = 50 * time.Millisecond
)

// Read takes a new reading of a filesystem, without waiting for the disk to settle.
func (w *Watcher) Read(f *Filesystem) error {
	_, err := w.read(f)
	return err
}

// read is Read, and returns what the disk shows.
func (w *Watcher) read(f *Filesystem) (shown Reading, err error) {
	shown, err = w.survey.read(f)
	if err == nil {
		shown = w.take(f, shown)
	}
	return shown, err
}

// take makes a reading the latest one, and returns what the disk shows by it.
func (w *Watcher) take(f *Filesystem, r Reading) (shown Reading) {
	now := w.o.Now()
	shown = f.freest(r, now)
	if f.Reading = shown; f.countsDirty(now) {
		f.Disk = w.kernel.counted(shown)
	}
	return shown
}

// Refresh takes a new reading of a filesystem, unless removals are believed that it does not show yet.
// If that fails, the last reading counts.
func (w *Watcher) Refresh(f *Filesystem) {
	if !f.Believing() {
		_ = w.Read(f)
	}
}

// ReadForPlan takes a reading for a plan. It logs it if the threshold is reached, because the
// kernel's event may still be on its way.
func (w *Watcher) ReadForPlan(ctx context.Context, f *Filesystem) error {
	if err := w.ReadExact(ctx, f); err != nil {
		return err
	}
	if f.HighReached() {
		w.o.Conditions.Begin(f.thresholdTopic(), slog.LevelInfo, "filesystem reached its high threshold",
			"reason", "threshold", "inodes", f.UsedPercent() < f.Thresholds.HighPercent, "path", f.Path)
	}
	return nil
}

// ReadExact takes a reading for a decision. The figure is made exact first while freed space is
// believed, and where statfs lags and the threshold is reached by statfs or by the kernel's count:
// usage may look too low after writes, and too high after deletes. On a disk that fills fast, a count
// is enough for the writes ([Filesystem.CountDirty]). If that takes too long, the
// current figure is used, with what is believed of the agent's own removals. It is an error if the
// filesystem is gone by then.
func (w *Watcher) ReadExact(ctx context.Context, f *Filesystem) error {
	r, err := w.survey.read(f)
	if err != nil {
		return err
	}
	if !f.Believing() && (!f.Lags() || !f.dirtyDecides(r.Disk, w.kernel.counted(r))) {
		w.take(f, r)
		return nil
	}
	if !f.countsDirty(w.o.Now()) && w.fillsFast(ctx, f, r) {
		f.CountDirty(true, w.o.Now())
	}
	reached := f.Thresholds.HighReached
	if f.countsDirty(w.o.Now()) {
		reached = nil // a commit is enough
	}
	ctx, cancel := context.WithTimeout(ctx, showDeadline)
	defer cancel()
	believed := f.believed
	settled := w.settling.settle(ctx, f, reached)
	if err := w.Read(f); err != nil {
		return err
	}
	if !believed.until.IsZero() {
		w.settling.shown(f, believed, settled)
	}
	return nil
}

// FullSoon reports whether a disk fills fast: the available bytes are used up within ten seconds at the pace at which so
// many bytes were written.
func FullSoon(available uint64, written float64, in time.Duration) bool {
	return written*fullSoon.Seconds() > float64(available)*in.Seconds()
}

// fillsFast reports whether the high threshold is reached only by what was written, and the disk fills fast in the next
// moment.
func (w *Watcher) fillsFast(ctx context.Context, f *Filesystem, r Reading) bool {
	if !f.HoldsImages() || !f.promises() || f.Thresholds.HighReached(r.Disk) {
		return false
	}
	before, begun := w.kernel.counted(r), w.o.Boot()
	if !w.settling.pause(ctx, fillLook) {
		return false
	}
	after, took := w.kernel.counted(r), w.o.Boot()-begun
	written := gained(after.AvailableBytes, before.AvailableBytes)
	return f.Thresholds.HighReached(after) && FullSoon(after.AvailableBytes, float64(written), took)
}
