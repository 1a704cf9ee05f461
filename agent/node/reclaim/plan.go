package reclaim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/shadow"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// filesystem is one that reclaim works on: the one with the images. If blobs are on another filesystem
// than the unpacked layers, there are two, and the policy decides for each by itself. A removal then
// frees what it frees on that filesystem, and the run continues until that one is at its low threshold.
type filesystem struct {
	*watermark.Filesystem
	weighs func(image.NodeKind) bool // which nodes take space here; nil: all
	kept   *state.Reclaim
	plan   image.Plan   // the latest
	would  shadow.Would // in mode observe
	hold   *image.Hold  // of the latest plan, for the next one; kept.Hold is the one that was logged
	full   bool         // a removal failed because a disk was full
	fullAt uint64       // the bytes that were available then
}

// roomToRemove is how much has to come free after a removal failed on a full disk until it is tried
// again at once, in bytes. containerd's database needs some pages.
const roomToRemove = 1 << 20

// untilRoom returns a hold that also ends once there is room for removals that failed on a full disk.
func (f *filesystem) untilRoom(hold *image.Hold) *image.Hold {
	if hold == nil || !f.full {
		return hold
	}
	h := *hold
	if at := f.fullAt + roomToRemove; h.EndsAtBytes == 0 || at < h.EndsAtBytes {
		h.EndsAtBytes = at
	}
	return &h
}

// Find finds out which filesystems hold images. It is called when the watched ones have moved.
func (r *Reclaimer) Find() {
	r.filesystems, r.target = nil, nil
	images, _ := r.o.Disks.Named(watermark.Images)
	content, _ := r.o.Disks.Named(watermark.Content)
	layers, blobs := &r.records.layers, &r.records.content
	switch {
	case images == nil:
		return
	case content == nil || content == images:
		r.filesystems = []*filesystem{{Filesystem: images, kept: layers, hold: layers.Hold}}
		*blobs = state.Reclaim{}
	default:
		r.filesystems = []*filesystem{
			{Filesystem: images, kept: layers, hold: layers.Hold, weighs: func(k image.NodeKind) bool { return k != image.NodeBlob }},
			{Filesystem: content, kept: blobs, hold: blobs.Hold, weighs: func(k image.NodeKind) bool { return k == image.NodeBlob }},
		}
	}
	r.target = r.filesystems[0]
	for _, f := range r.filesystems {
		if f.kept.EndIfRaised(f.Thresholds); r.gate.Observe { // an earlier agent's, in mode enforce
			f.kept.ReclaimingBytes, f.kept.ReclaimingInodes = false, false
		}
	}
}

// Read takes readings of the filesystems that are exact enough to plan from.
func (r *Reclaimer) Read(ctx context.Context) error {
	for _, f := range r.filesystems {
		if err := r.o.Disks.ReadForPlan(ctx, f.Filesystem); err != nil {
			return err
		}
	}
	return nil
}

// StillHigh reports whether a filesystem has reached its high threshold, or cannot be read. It reads
// them up to the first such filesystem.
func (r *Reclaimer) StillHigh(ctx context.Context) bool {
	for _, f := range r.filesystems {
		if err := r.o.Disks.ReadForPlan(ctx, f.Filesystem); err != nil || f.HighReached() {
			return true
		}
	}
	return false
}

// decide makes the plans. On a filesystem where there is nothing to remove, the run has ended, unless
// removals are believed there that the disk does not show yet.
func (r *Reclaimer) decide(inv *inventory.Inventory) (work bool) {
	work = r.plan(inv)
	for _, f := range r.filesystems {
		if len(f.plan.Remove) == 0 && !f.Believing() {
			f.kept.ReclaimingBytes, f.kept.ReclaimingInodes = false, false
		}
	}
	return work
}

// planAgain reads the disks, and makes new plans from an inventory that is at hand. While the target fills fast, they
// count what is still to be allocated.
func (r *Reclaimer) planAgain(inv *inventory.Inventory, fast bool) (work bool) {
	r.target.CountDirty(fast, r.o.Now())
	for _, f := range r.filesystems {
		_ = r.o.Disks.Read(f.Filesystem) // if it fails, the last reading counts
	}
	return r.plan(inv)
}

// plan asks the policy for the plans, and makes a filesystem with images to remove the target. If both
// have some, it is the one that is further over its high threshold. plan returns false if neither has.
func (r *Reclaimer) plan(inv *inventory.Inventory) (work bool) {
	for _, f := range r.filesystems {
		if f.full && f.AvailableBytes >= f.fullAt+roomToRemove {
			f.full = false
			r.gate.RoomAgain()
		}
	}
	if r.asked != nil {
		return r.asked.plan(r, inv)
	}
	now := r.o.Now()
	for _, f := range r.filesystems {
		f.plan = image.Decide(r.snapshot(f, inv), now)
		f.hold = f.plan.Hold
		// While believing, the low threshold is reached by computed sizes. The run continues if the disk
		// shows that it is not. So it does on a disk that lags, where only the next pass reads exactly.
		if !f.Believing() && !f.Lags() {
			f.kept.ReclaimingBytes = f.kept.ReclaimingBytes && f.plan.NeedBytes > 0
			f.kept.ReclaimingInodes = f.kept.ReclaimingInodes && f.plan.NeedInodes > 0
		}
	}
	order := slices.Clone(r.filesystems)
	slices.SortStableFunc(order, func(f, g *filesystem) int { return cmp.Compare(g.urgency(), f.urgency()) })
	for _, f := range order {
		if len(f.plan.Remove) > 0 {
			r.target = f
			return true
		}
	}
	return false
}

// snapshot returns the policy's input for one filesystem.
func (r *Reclaimer) snapshot(f *filesystem, inv *inventory.Inventory) image.Snapshot {
	snapshot := image.Snapshot{
		Policy:          f.Thresholds,
		Disk:            f.Believed(),
		Graph:           f.graph(inv.Graph),
		Pods:            r.o.Pods.Policy(),
		Blocked:         inv.Blocked,
		ReclaimingBytes: f.kept.ReclaimingBytes, ReclaimingInodes: f.kept.ReclaimingInodes,
		Hold:   f.hold,
		Images: make([]image.Image, 0, len(inv.Images)),
	}
	for _, i := range inv.Images {
		known := r.o.LastUse.Image(i.ID)
		snapshot.Images = append(snapshot.Images, image.Image{
			ID: i.ID, References: i.References, UsedBy: i.UsedBy, Unread: i.Unread, Wanted: r.o.Pods.Want(i),
			Pinned: i.Pinned, Sandbox: i.Sandbox, Keep: r.o.Keep.Match(i.References),
			LastUsed: known.LastUsed, Arrived: known.Arrived, Observed: known.Observed,
			RetryAt: r.gate.Until(i.ID), Roots: i.Roots, NominalBytes: i.NominalBytes,
		})
	}
	return snapshot
}

// graph returns the runtime's graph as seen on this filesystem: nodes that are elsewhere become
// records, without a size. So an image that frees nothing here is not removed.
func (f *filesystem) graph(g image.Graph) image.Graph {
	if f.weighs == nil {
		return g
	}
	g.Nodes = slices.Clone(g.Nodes)
	for i := range g.Nodes {
		if n := &g.Nodes[i]; !f.weighs(n.Kind) {
			n.Kind, n.Bytes, n.Inodes = image.NodeRecord, 0, 0
		}
	}
	return g
}

// removes lists the images that the latest plan removes.
func (f *filesystem) removes() []string {
	ids := make([]string, len(f.plan.Remove))
	for n, d := range f.plan.Remove {
		ids[n] = d.ImageID
	}
	return ids
}

// held reports whether images cannot free the space, by the latest plan.
func (f *filesystem) held() bool { return f.hold != nil && f.hold.Final() }

// needsHeld reports whether, by the latest reading, a resource on hold is at its high threshold, or above its low one during
// a run, and images are still not enough.
func (f *filesystem) needsHeld() bool {
	p, h, disk := f.Thresholds, f.hold, f.With(f.Believed())
	bytes, inodes := p.Reached(disk)
	return disk.AvailableBytes < h.EndsAtBytes && (bytes || f.kept.ReclaimingBytes && disk.BytesTo(p.LowPercent) > 0) ||
		disk.InodesAvailable < h.EndsAtInodes && (inodes || f.kept.ReclaimingInodes && disk.InodesTo(p.InodesLowPercent) > 0)
}

// urgency returns by how many percentage points the filesystem is over its high threshold.
func (f *filesystem) urgency() int {
	return max(f.UsedPercent()-f.Thresholds.HighPercent, f.InodesUsedPercent()-f.Thresholds.InodesHighPercent)
}

// planned applies what the latest plans say about the future: it reports their holds, and returns when
// the plans change with time; the zero time if they do not.
func (r *Reclaimer) planned() (next time.Time) {
	var holds []*image.Hold
	for _, f := range r.filesystems {
		hold := f.plan.Hold
		if r.shadow != nil {
			hold = f.would.Hold
		}
		r.o.Disks.Planned(f.Filesystem, f.untilRoom(hold))
		r.explainHold(f)
		f.kept.Hold = f.plan.Hold
		holds = append(holds, f.plan.Hold)
		next = clock.Earliest(next, clock.Earliest(f.plan.Next, f.would.Next))
	}
	r.metrics.held(holds...)
	return next
}
