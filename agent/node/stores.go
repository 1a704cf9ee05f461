package node

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// store is a filesystem that reclaim works on: the one with the images. Where
// blobs are on another one than the unpacked layers there are two, and the
// policy is asked for each by itself: what a removal frees is then what it frees
// there, and the run goes on until that one is low.
type store struct {
	*filesystem
	weighs func(image.NodeKind) bool // what takes space here; nil: all
	kept   *state.Reclaim
	plan   image.Plan  // the latest
	hold   *image.Hold // the latest plan's, for the next one; kept.Hold has been said
}

// findStores sorts out which filesystems hold images.
func (a *Agent) findStores() {
	a.stores, a.target = nil, nil
	images, content := a.named(fsImages), a.named(fsContent)
	switch {
	case images == nil:
		return
	case content == nil || content == images:
		kept := &a.rec.Meta.Reclaim
		a.stores = []*store{{filesystem: images, kept: kept, hold: kept.Hold}}
		a.rec.Meta.Content = state.Reclaim{}
	default:
		layers, blobs := &a.rec.Meta.Reclaim, &a.rec.Meta.Content
		a.stores = []*store{
			{filesystem: images, kept: layers, hold: layers.Hold, weighs: func(k image.NodeKind) bool { return k != image.NodeBlob }},
			{filesystem: content, kept: blobs, hold: blobs.Hold, weighs: func(k image.NodeKind) bool { return k == image.NodeBlob }},
		}
	}
	a.target = a.stores[0]
}

// graph is the runtime's graph as seen on this filesystem: what is elsewhere
// is a mere record here. So an image of which nothing goes here is spared.
func (s *store) graph(g image.Graph) image.Graph {
	if s.weighs == nil {
		return g
	}
	g.Nodes = slices.Clone(g.Nodes)
	for i := range g.Nodes {
		if n := &g.Nodes[i]; !s.weighs(n.Kind) {
			n.Kind, n.Bytes, n.Inodes = image.NodeRecord, 0, 0
		}
	}
	return g
}

// decide plans. Where there is nothing to remove, no run is on any more.
func (a *Agent) decide(inv *inventory.Inventory) (work bool) {
	work = a.plan(inv)
	for _, s := range a.stores {
		// Otherwise it is at the low line by what was computed: the run goes on if the disk
		// shows that it is not.
		if len(s.plan.Remove) == 0 && s.believed.none() {
			s.kept.ReclaimingBytes, s.kept.ReclaimingInodes = false, false
		}
	}
	return work
}

// plan asks the policy, and makes the filesystem the target that has something to
// remove; of two, the one that is further over its line. It returns false if neither has.
func (a *Agent) plan(inv *inventory.Inventory) (work bool) {
	now := a.clock.now()
	for _, s := range a.stores {
		s.plan = image.Decide(a.snapshot(s, inv, now), now)
		s.hold = s.plan.Hold
	}
	order := slices.Clone(a.stores)
	slices.SortStableFunc(order, func(s, t *store) int { return cmp.Compare(t.urgency(), s.urgency()) })
	for _, s := range order {
		if len(s.plan.Remove) > 0 {
			a.target = s
			return true
		}
	}
	return false
}

// removes reports whether the latest plan removes an image.
func (s *store) removes(id string) bool {
	return slices.ContainsFunc(s.plan.Remove, func(d image.Decision) bool { return d.ImageID == id })
}

// urgency is by how many points the filesystem is over its high line.
func (s *store) urgency() int {
	return max(s.UsedPercent()-s.lines.HighPercent, s.InodesUsedPercent()-s.lines.InodesHighPercent)
}

func (a *Agent) snapshot(s *store, inv *inventory.Inventory, now time.Time) image.Snapshot {
	snapshot := image.Snapshot{
		Policy:          s.lines,
		Disk:            s.disk(),
		Graph:           s.graph(inv.Graph),
		Pods:            a.podsNow(),
		Blocked:         inv.Blocked,
		ReclaimingBytes: s.kept.ReclaimingBytes, ReclaimingInodes: s.kept.ReclaimingInodes,
		Hold:   s.hold,
		Images: make([]image.Image, 0, len(inv.Images)),
	}
	for _, i := range inv.Images {
		r := a.rec.Images[i.ID]
		snapshot.Images = append(snapshot.Images, image.Image{
			ID: i.ID, References: i.References, UsedBy: i.UsedBy, Wanted: a.wantedBy(i),
			Pinned: i.Pinned, Sandbox: i.Sandbox, Keep: a.keep.Match(i.References),
			LastUsed: r.LastUsed, Arrived: r.Arrived, Observed: r.Observed,
			RetryAt: a.failures[i.ID].until, Roots: i.Roots,
		})
	}
	return snapshot
}

// planned takes over what the latest plans say of the time to come.
func (a *Agent) planned() (next time.Time) {
	var holds []*image.Hold
	for _, s := range a.stores {
		s.calm.looked(s.plan.Hold != nil, a.clock.now())
		a.explainHold(s)
		s.kept.Hold = s.plan.Hold
		holds = append(holds, s.plan.Hold)
		if at := s.plan.Next; !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	a.metrics.hold(holds...)
	return next
}

// aboveLine: images are wanted gone.
func (a *Agent) aboveLine() bool {
	return slices.ContainsFunc(a.stores, func(s *store) bool { return s.line.above })
}
