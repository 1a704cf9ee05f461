package watermark

import (
	"context"
	"log/slog"
	"time"
)

// showDeadline bounds the wait for a filesystem's figure to become exact.
const showDeadline = 3 * time.Second

// Read takes a new reading of a filesystem, without waiting for the disk to settle.
func (w *Watcher) Read(f *Filesystem) error {
	r, err := w.survey.read(f)
	if err == nil {
		f.Reading = f.freest(r, w.o.Now())
	}
	return err
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
// usage may look too low after writes, and too high after deletes. If that takes too long, the
// current figure is used, with what is believed of the agent's own removals. It is an error if the
// filesystem is gone by then.
func (w *Watcher) ReadExact(ctx context.Context, f *Filesystem) error {
	r, err := w.survey.read(f)
	if err != nil {
		return err
	}
	if !f.Believing() && (!f.Lags() || !f.dirtyDecides(r.Disk, w.kernel.counted(r))) {
		f.Reading = f.freest(r, w.o.Now())
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, showDeadline)
	defer cancel()
	believed := f.believed
	settled := w.settling.settle(ctx, f, f.Thresholds.HighReached)
	if err := w.Read(f); err != nil {
		return err
	}
	if !believed.until.IsZero() {
		w.settling.shown(f, believed, settled)
	}
	return nil
}
