package reclaim

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/removal"
	"github.com/ebb-agent/ebb/agent/node/shadow"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Reclaimer plans which images to remove. A [Run] removes them.
type Reclaimer struct {
	o           *Options
	metrics     *metrics
	runtime     Runtime       // nil before Connected
	filesystems []*filesystem // the watched ones with images
	target      *filesystem   // of these, the one that reclaim works on, or last worked on
	records     records
	gate        removal.Gate   // by image ID
	asked       *Asked         // the request of the current run; nil: no client asked for it
	last        *page.Run      // see LastRun
	executing   bool           // images are being removed
	shadow      *shadow.Shadow // nil: the agent enforces
	unmended    bool           // withdrawn images may still be without their names
}

// records are what the state file keeps.
type records struct {
	layers, content state.Reclaim // content is used where blobs have a filesystem of their own
	removals        []time.Time   // of the last hour
	restored        time.Time     // when those of an earlier agent were taken over
}

// recent returns the times of the removals within the last hour, oldest first. Those whose outcome is not known
// count as well; those of an earlier agent are counted already.
func (s *records) recent(o *Options) []time.Time {
	now := o.Now()
	s.removals = removal.Within(s.removals, now)
	doubt := o.History.InDoubt(page.KindImage, func(e page.HistoryEntry) bool { return s.added(o, e) })
	if len(doubt) == 0 {
		return s.removals
	}
	recent := removal.Within(slices.Concat(s.removals, doubt), now)
	slices.SortFunc(recent, time.Time.Compare)
	return recent
}

// added reports whether a removal uses up the hourly cap, and Restore has not counted it.
func (s *records) added(o *Options, e page.HistoryEntry) bool {
	return !e.Time.Before(s.restored) && o.counts(e)
}

// New registers the metrics. It starts nothing.
func New(r *prometheus.Registry, o Options) *Reclaimer {
	reclaimer := &Reclaimer{o: &o, metrics: newMetrics(r), gate: removal.Gate{Switch: o.Switch, History: o.History}}
	if o.Switch.Observe {
		reclaimer.shadow = shadow.New(r, shadow.Options{
			Config: o.Config.Images, LookEvery: time.Duration(o.Config.ReconcileInterval), Now: o.Now, LookAgain: o.LookAgain, Entry: o.entry, History: o.History, Log: o.Log,
		})
	}
	return reclaimer
}

// Restore takes over the records of an earlier agent. It is called before anything else. If that agent
// was killed in a run, the records lack its latest removals. The history has them, because each is
// written there before it happens.
func (r *Reclaimer) Restore(from state.Records) {
	m := &from.Meta
	r.records = records{layers: m.Reclaim, content: m.Content, removals: m.Removals, restored: r.o.Now()}
	now := r.o.Now()
	known := removal.Within(r.o.History.Removals(page.KindImage, now.Add(-removal.CapWindow), r.o.counts), now)
	if len(known) > len(removal.Within(m.Removals, now)) {
		r.records.removals = known
	}
	if r.shadow != nil {
		r.shadow.Restore(from)
	}
}

// Save adds a copy of the records to those that are to be written.
func (r *Reclaimer) Save(into *state.Records) {
	m := &into.Meta
	m.Reclaim, m.Content, m.Removals = r.records.layers.Clone(), r.records.content.Clone(), slices.Clone(r.records.removals)
	if r.shadow != nil {
		r.shadow.Save(into)
	}
}

// Connected takes over a connection to the runtime. The runtime may have images that an earlier agent
// has withdrawn.
func (r *Reclaimer) Connected(rt Runtime) { r.runtime, r.unmended = rt, true }

// Unmended reports whether the runtime's list may lack images that are there, but without their names.
func (r *Reclaimer) Unmended() bool { return r.unmended }

// Happened counts and logs removals that turned out to have happened although the runtime did not answer, or the agent was
// killed. Restore has counted those of an earlier agent for the hourly cap.
func (r *Reclaimer) Happened(removals []page.HistoryEntry) {
	now := r.o.Now()
	for _, e := range removals {
		d := image.Decision{ImageID: e.ID, Reason: image.Reason(e.Rule), FreesBytes: e.ComputedBytes, FreesInodes: e.ComputedInodes}
		if r.records.added(r.o, e) {
			r.records.removals = append(r.records.removals, now)
		}
		r.metrics.freed(d.Reason, 0) // it was not measured
		r.o.Log.Info("image removed", "image", e.ID, "references", e.Names, "reason", e.Rule, "detail", e.Detail,
			"computed_bytes", e.ComputedBytes, "freed", e.Error, "begun", e.Time)
		r.o.LastUse.Removed(d, e.Names, e.Time)
		r.gate.Forget(e.ID)
	}
}

// Listed takes over what the runtime lists, and the IDs of images that are gone.
func (r *Reclaimer) Listed(inv *inventory.Inventory, gone []string) {
	for _, id := range gone {
		r.gate.Forget(id)
	}
	if r.shadow != nil {
		r.shadow.Listed(inv, gone)
	}
}

// Target returns the filesystem that reclaim works on, or last worked on, with its latest plan. It
// returns nil if the images have not been found yet.
func (r *Reclaimer) Target() (*watermark.Filesystem, image.Plan) {
	if r.target == nil {
		return nil, image.Plan{}
	}
	return r.target.Filesystem, r.target.plan
}

// Running reports whether images are being removed right now.
func (r *Reclaimer) Running() bool { return r.executing }

// Hold returns why a filesystem cannot be brought to its low threshold; nil if it can, or if that is
// not needed.
func (r *Reclaimer) Hold(on *watermark.Filesystem) *image.Hold {
	for _, f := range r.filesystems {
		if f.Filesystem == on {
			return f.kept.Hold
		}
	}
	return nil
}

// savedMost bounds how long a look waits for the record of restored names to be saved. A full disk fails at once.
const savedMost = 2 * time.Second

// Mend restores the names of images whose withdrawal was interrupted by a crash, or by a runtime that
// became unavailable. It returns how many images have their names again. If Mend fails, reclaim
// continues all the same, because the disk may be full.
func (r *Reclaimer) Mend(ctx context.Context) (images int) {
	if !r.unmended {
		return 0
	}
	var mended []string
	var err error
	r.o.Outside(func() { mended, err = r.runtime.Mend(ctx) })
	r.o.LastUse.Back(mended...)
	if images = len(mended); images > 0 {
		r.metrics.mended.Add(float64(images))
		r.o.Log.Info("names of images put back", "images", images, "reason", "their removal was begun and not ended")
		// Until that is saved, another crash would make the images look as if somebody had tagged them now.
		saved := r.o.Saved()
		r.o.Outside(func() {
			select {
			case <-saved:
			case <-time.After(savedMost):
			case <-ctx.Done():
			}
		})
	}
	if err != nil {
		r.o.Conditions.Begin("mend", slog.LevelWarn, "the names of some images cannot be put back; trying again", "error", err)
		return images
	}
	r.o.Conditions.End("mend", "the names of images are complete again")
	r.o.LastUse.NoneWithdrawn()
	r.unmended = false
	return images
}

// HoldNeedsSpace reads the disks on hold, and reports whether one still needs space that images cannot free. While it is
// not known of some images whether they may go, they may.
func (r *Reclaimer) HoldNeedsSpace(ctx context.Context) bool {
	return slices.ContainsFunc(r.filesystems, func(f *filesystem) bool {
		// Others run during the reading, and may end the hold.
		return f.held() && r.o.Disks.ReadExact(ctx, f.Filesystem) == nil && f.held() && f.needsHeld()
	})
}

// Above reports whether a filesystem with images had reached its high threshold at its latest reading.
func (r *Reclaimer) Above() bool {
	return slices.ContainsFunc(r.filesystems, func(f *filesystem) bool { return f.Above() })
}

// PodsMissed reports whether space is needed, and an image stays only because pods are not known.
func (r *Reclaimer) PodsMissed() bool {
	return slices.ContainsFunc(r.filesystems, func(f *filesystem) bool {
		return (f.plan.NeedBytes > 0 || f.plan.NeedInodes > 0) &&
			slices.ContainsFunc(f.plan.Keep, func(d image.Decision) bool { return d.Reason == image.KeptPodsUnknown })
	})
}
