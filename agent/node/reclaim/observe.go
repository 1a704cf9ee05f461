package reclaim

import (
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/shadow"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// observe makes the plans that pages show, and has the shadow treat the images that would be removed as
// removed.
func (r *Reclaimer) observe(inv *inventory.Inventory, end *outcome) {
	r.decide(inv)
	if r.gate.Paused() != nil {
		for _, f := range r.filesystems {
			f.would, f.Spare = shadow.Would{}, image.Size{}
			r.shadow.NeededAgain(r.snapshot(f, inv).Images)
		}
		r.shadow.Above(false, false) // a pause is not counted
		return
	}
	var is, would bool
	for _, f := range r.filesystems {
		w := r.shadow.Decide(f.Path, r.snapshot(f, inv))
		f.would, f.Spare = w, w.Disk.Available().Sub(f.Believed().Available())
		is, would = is || f.HighReached(), would || f.Thresholds.HighReached(w.Disk)
		if w.Removed > 0 {
			end.trigger, end.result, end.started = w.Rule, resultObserved, r.o.Now()
			end.removed, end.freed = end.removed+w.Removed, end.freed+w.Freed.Bytes
		}
	}
	r.shadow.Above(is, would)
}

// Observed returns what was counted in mode observe; nil in another mode.
func (r *Reclaimer) Observed() *page.Observed {
	if r.shadow == nil {
		return nil
	}
	column := func(t state.Tally) page.ObservedBy {
		return page.ObservedBy{
			Images: t.Images, Freed: page.Size{Bytes: t.Bytes, Inodes: t.Inodes}, PulledAgain: t.Again, PulledBytes: t.PullBytes, AboveSeconds: t.Above.Seconds(),
		}
	}
	o := r.shadow.Observation()
	return &page.Observed{Since: o.Since, Ebb: column(o.Ebb), Others: column(o.Others)}
}
