package node

import (
	"context"

	"github.com/ebb-agent/ebb/agent/node/workloads"
)

// dead is the worker that looks for dead containers and reads the pods.
type dead struct {
	*parts
	worker
	looks     *looks
	podsMoved bool // pods changed, and have not been read since
}

// podsChanged has the worker read the pods, and look for dead containers after that.
func (d *dead) podsChanged() {
	d.podsMoved = true
	d.want()
}

// work reads the pods if they changed, and plans a look for dead containers. Otherwise it looks for
// them now.
func (d *dead) work(ctx context.Context) {
	if d.podsMoved {
		d.podsMoved = false
		d.watermark.HoldsMayEnd()
		_, _ = d.pods.Read(ctx) // saves which images they want
		d.workloads.Soon(workloads.LookPause)
		return
	}
	if err := d.workloads.Reconcile(ctx, d.rt, func() bool { return d.spaceNeeded(ctx) }); err != nil {
		d.metrics.lookFailures.Inc()
	}
}

// spaceNeeded reports whether a filesystem needs space that images cannot free: one without images has
// reached its high threshold, or reclaim is on hold. Then what ended pods left behind is removed, too,
// as the kubelet's eviction manager does. The disks are read anew: others may have freed the space since. Images that
// have just fallen out of use may free it, too: what ended pods left behind waits for a look at them.
func (d *dead) spaceNeeded(ctx context.Context) bool {
	for _, f := range d.watermark.Filesystems() {
		if !f.HoldsImages() && d.watermark.ReadExact(ctx, f) == nil && f.HighReached() {
			return true
		}
	}
	return d.looks.settled() && d.reclaim.HoldNeedsSpace(ctx) && d.looks.calm() // others run during a reading
}
