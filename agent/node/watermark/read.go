package watermark

import (
	"context"
	"log/slog"
	"time"
)

// showDeadline bounds the wait for a filesystem's figure to become true.
const showDeadline = 3 * time.Second

// Read takes a new reading of a filesystem, as the disk shows it at once.
func (w *Watcher) Read(f *Filesystem) error {
	r, err := w.survey.read(f)
	if err == nil {
		f.Reading = r
	}
	return err
}

// ReadForPlan takes a reading that a plan may rest on, and says so if the threshold is
// reached: the kernel's event may still be on its way.
func (w *Watcher) ReadForPlan(ctx context.Context, f *Filesystem) error {
	if err := w.update(ctx, f); err != nil {
		return err
	}
	if f.HighReached() {
		w.o.Conditions.Begin(f.thresholdTopic(), slog.LevelInfo, "filesystem reached its high threshold",
			"reason", "threshold", "inodes", f.UsedPercent() < f.Thresholds.HighPercent, "path", f.Path)
	}
	return nil
}

// update takes a reading for a decision. Where statfs lags, the figure is made true first, if
// by any account the threshold is reached: it may be too low after writes, too high after
// deletes. If that takes too long the figure at hand has to do, with what is believed
// of the agent's own removals. It is an error if the filesystem went meanwhile.
func (w *Watcher) update(ctx context.Context, f *Filesystem) error {
	r, err := w.survey.read(f)
	if err != nil {
		return err
	}
	if !f.Believing() && (!f.lags() || !f.Thresholds.HighReached(w.kernel.counted(r))) {
		f.Reading = r
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, showDeadline)
	defer cancel()
	believed := f.believed
	settled := w.settling.settle(ctx, f)
	if err := w.Read(f); err != nil {
		return err
	}
	if !believed.until.IsZero() {
		w.settling.shown(f, believed, settled)
	}
	return nil
}
