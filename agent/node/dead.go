package node

import (
	"context"

	"github.com/ebb-agent/ebb/agent/node/workloads"
)

// dead looks for dead containers, and asks for pods.
type dead struct {
	*parts
	worker
	podsMoved bool // pods changed, and have not been read since
}

// podsChanged has the pods read, and then dead containers looked for.
func (d *dead) podsChanged() {
	d.podsMoved = true
	d.want()
}

// work looks for dead containers, after it has taken in what pods want if that changed.
func (d *dead) work(ctx context.Context) {
	if d.podsMoved {
		d.podsMoved = false
		d.watermark.HoldsMayEnd()
		_, _ = d.pods.Read(ctx) // so that it is saved what they want
		d.workloads.Soon(workloads.LookPause)
		return
	}
	if err := d.workloads.Reconcile(ctx, d.rt, d.spaceNeeded()); err != nil {
		d.metrics.lookFailures.Inc()
	}
}

// spaceNeeded: a filesystem on which pods leave things is over its high threshold, and removing
// images cannot help. Then pods that have ended give way, too, as they do for the
// kubelet's eviction manager.
func (d *dead) spaceNeeded() bool {
	for _, f := range d.watermark.Filesystems() {
		if !f.HoldsImages() && f.HighReached() {
			return true
		}
	}
	return d.reclaim.Holding()
}
