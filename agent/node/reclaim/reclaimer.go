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

// Reclaimer plans which images go, and has a [Run] remove them.
type Reclaimer struct {
	o           *Options
	metrics     *metrics
	runtime     Runtime       // nil before Connected
	filesystems []*filesystem // the watched ones with images
	target      *filesystem   // of these, the one that reclaim works, or worked last, on
	records     records
	gate        removal.Gate   // by image ID
	asked       *Asked         // the run that is on was asked for; nil: it was not
	last        *page.Run      // see LastRun
	executing   bool           // images are being removed
	shadow      *shadow.Shadow // nil: the agent enforces
	unmended    bool           // withdrawn images may have been left without their names
}

// records are what outlives the agent.
type records struct {
	layers, content state.Reclaim // content is used where blobs have a filesystem of their own
	removals        []time.Time   // of the last hour
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

// Restore takes over the records of an earlier agent, before anything else is called. If it was killed
// in a run, they lack the latest removals. The history has those: each is written there before it happens.
func (r *Reclaimer) Restore(from state.Records) {
	m := &from.Meta
	r.records = records{layers: m.Reclaim, content: m.Content, removals: m.Removals}
	now := r.o.Now()
	known := removal.Within(r.o.History.Removals(page.KindImage, now.Add(-removal.CapWindow)), now)
	if len(known) > len(removal.Within(m.Removals, now)) {
		r.records.removals = known
	}
	if r.shadow != nil {
		r.shadow.Restore(from)
	}
}

// Save puts a copy of the records among those that are to be written.
func (r *Reclaimer) Save(into *state.Records) {
	m := &into.Meta
	m.Reclaim, m.Content, m.Removals = r.records.layers.Clone(), r.records.content.Clone(), slices.Clone(r.records.removals)
	if r.shadow != nil {
		r.shadow.Save(into)
	}
}

// Connected takes over the connection to the runtime, which may have images that an earlier
// agent has withdrawn.
func (r *Reclaimer) Connected(rt Runtime) { r.runtime, r.unmended = rt, true }

// Unmended reports whether images may miss from the runtime's list that are there, without their
// names.
func (r *Reclaimer) Unmended() bool { return r.unmended }

// Listed takes over what the runtime lists, and which images are there no more.
func (r *Reclaimer) Listed(inv *inventory.Inventory, gone []string) {
	for _, id := range gone {
		r.gate.Forget(id)
	}
	if r.shadow != nil {
		r.shadow.Listed(inv, gone)
	}
}

// Target is the filesystem that reclaim works, or worked last, on, with the latest plan for it;
// nil if the images have not been found yet.
func (r *Reclaimer) Target() (*watermark.Filesystem, image.Plan) {
	if r.target == nil {
		return nil, image.Plan{}
	}
	return r.target.Filesystem, r.target.plan
}

// Running reports whether images are being removed right now.
func (r *Reclaimer) Running() bool { return r.executing }

// Hold is why a filesystem cannot be brought to its low threshold; nil if it can, or none is asked for.
func (r *Reclaimer) Hold(on *watermark.Filesystem) *image.Hold {
	for _, f := range r.filesystems {
		if f.Filesystem == on {
			return f.kept.Hold
		}
	}
	return nil
}

// Mend brings withdrawals to an end that a crash, or a runtime that went away, has
// interrupted, and returns how many images have their names again. If that fails, reclaim goes
// on all the same: the disk may be full.
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

// Holding reports whether space is needed that images cannot give.
func (r *Reclaimer) Holding() bool {
	return slices.ContainsFunc(r.filesystems, func(f *filesystem) bool { return f.kept.Hold != nil })
}

// Above reports whether images are wanted gone.
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
