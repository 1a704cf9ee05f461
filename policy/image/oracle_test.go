package image

import (
	"math/big"
	"slices"
	"time"
)

// oracle decides the same as Decide in the most naive way: it tries every
// prefix, and finds what a set of images frees by spreading marks over all nodes
// until nothing changes. It shares no code with Decide except the validation of a policy.
type oracle struct {
	s   Snapshot
	now time.Time
}

// verdict is the part of a plan that the oracle answers for.
type verdict struct {
	Remove []Decision // ID, reason and frees only
	Kept   map[string]Reason
	Hold   *holds
	Need   [2]uint64
}

// holds is the part of a hold that concerns images.
type holds struct {
	Unread, Images []string // sorted
}

// reachable marks what holders and the images lead to.
func (o oracle) reachable(stay func(Image) bool) []bool {
	marked := make([]bool, len(o.s.Graph.Nodes))
	mark := func(ids []NodeID) {
		for _, id := range ids {
			if int(id) < len(marked) {
				marked[id] = true
			}
		}
	}
	for _, h := range o.s.Graph.Holders {
		mark(h.Nodes)
	}
	for _, img := range o.s.Images {
		if stay(img) {
			mark(img.Roots)
		}
	}
	for range o.s.Graph.Nodes { // no path is longer
		for id, yes := range marked {
			if yes {
				mark(o.s.Graph.Nodes[id].Refs)
			}
		}
	}
	return marked
}

// freed is what goes when the images named go.
func (o oracle) freed(gone []string) (bytes, inodes uint64, snapshots int, nodes []bool) {
	before := o.reachable(func(Image) bool { return true })
	after := o.reachable(func(img Image) bool { return !slices.Contains(gone, img.ID) })
	nodes = make([]bool, len(before))
	for id := range before {
		if before[id] && !after[id] {
			nodes[id] = true
			n := o.s.Graph.Nodes[id]
			bytes, inodes = bytes+n.Bytes, inodes+n.Inodes
			if n.Kind == NodeSnapshot {
				snapshots++
			}
		}
	}
	return bytes, inodes, snapshots, nodes
}

func (o oracle) since(t time.Time) time.Duration {
	if t.IsZero() || t.After(o.now) {
		return 0
	}
	return o.now.Sub(t)
}

func known(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}

func (o oracle) fixed(img Image) Reason {
	twins, outside := 0, false
	for _, other := range o.s.Images {
		if other.ID == img.ID {
			twins++
		}
	}
	for _, root := range img.Roots {
		outside = outside || int(root) >= len(o.s.Graph.Nodes)
	}
	switch {
	case o.s.Blocked != "" || len(o.s.Policy.Validate()) > 0, twins > 1, outside, img.ID == "":
		return KeptBlocked
	case len(img.UsedBy) > 0:
		return KeptInUse
	case len(img.Wanted) > 0:
		return KeptWanted
	case img.Pinned:
		return KeptPinned
	case img.Sandbox:
		return KeptSandbox
	case img.Keep != "":
		return KeptByRule
	case img.Unread != "":
		return KeptUseUnknown
	case o.unheardOf(known(img.Arrived, img.Observed)):
		return KeptPodsUnknown
	case o.since(known(img.Arrived, img.Observed)) < o.s.Policy.MinimumAge:
		return KeptYoung
	}
	return ""
}

// unheardOf: no answer of the pods could know of an image that arrived then.
func (o oracle) unheardOf(arrived time.Time) bool {
	switch pods := o.s.Pods; {
	case !pods.Unknown:
		return false
	case arrived.IsZero():
		return true
	case pods.Answered.IsZero():
		return arrived.After(o.now.Add(-60 * time.Minute))
	default:
		return arrived.After(pods.Answered) || arrived.Equal(pods.Answered)
	}
}

func (o oracle) old(img Image) bool {
	limit := o.s.Policy.MaximumAge
	return limit > 0 && o.since(known(img.LastUsed, img.Observed)) >= limit && o.since(img.Observed) >= limit
}

// share is n·part/whole, rounded up or down, in numbers that have no end; 0 of nothing, and part
// at most.
func share(n, part, whole uint64, up bool) uint64 {
	if whole == 0 {
		return 0
	}
	rest := new(big.Int)
	quotient := new(big.Int).Mul(new(big.Int).SetUint64(n), new(big.Int).SetUint64(part))
	quotient.QuoRem(quotient, new(big.Int).SetUint64(whole), rest)
	if up && rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient.Uint64()
}

func (o oracle) need() (need [2]uint64) {
	p, d := o.s.Policy, o.s.Disk
	if len(p.Validate()) > 0 {
		return need
	}
	for i, l := range []struct {
		capacity, available uint64
		high, low           int
		reclaiming          bool
	}{
		{d.CapacityBytes, d.AvailableBytes, p.HighPercent, p.LowPercent, o.s.ReclaimingBytes},
		{d.Inodes, d.InodesAvailable, p.InodesHighPercent, p.InodesLowPercent, o.s.ReclaimingInodes},
	} {
		on := l.capacity > 0 && l.high > 0 && l.high < 100
		used := 100 - int(share(min(l.available, l.capacity), 100, l.capacity, false))
		target := share(l.capacity, 100-uint64(max(l.low, 0)), 100, true)
		if on && (used >= l.high || l.reclaiming) && target > l.available {
			need[i] = target - l.available
		}
	}
	return need
}

func (o oracle) decide() verdict {
	v := verdict{Kept: make(map[string]Reason), Need: o.need()}
	var aged, rest []Image
	for _, img := range o.s.Images {
		if reason := o.fixed(img); reason != "" {
			v.Kept[img.ID] = reason
		} else if o.old(img) {
			aged = append(aged, img)
		} else {
			rest = append(rest, img)
		}
	}
	byUse := func(a, b Image) int {
		if o.before(a, b) {
			return -1
		}
		return 1
	}
	slices.SortFunc(aged, byUse)
	slices.SortFunc(rest, byUse)

	if o.s.Blocked != "" || len(o.s.Policy.Validate()) > 0 {
		if o.s.Hold != nil && v.Need != [2]uint64{} {
			v.Hold = &holds{o.s.Hold.Unread, o.s.Hold.Images}
		}
		return v
	}
	chosen, spared := o.choose(&v, ids(aged), ids(rest))
	o.explain(&v, aged, rest, chosen, spared)
	return v
}

// before reports whether a goes before b.
func (o oracle) before(a, b Image) bool {
	for _, pair := range [][2]time.Time{
		{known(a.LastUsed, a.Observed), known(b.LastUsed, b.Observed)},
		{known(a.Arrived, a.Observed), known(b.Arrived, b.Observed)},
		{a.Observed, b.Observed},
	} {
		x, y := pair[0], pair[1]
		switch {
		case x.IsZero() != y.IsZero():
			return y.IsZero()
		case !x.Equal(y):
			return x.Before(y)
		}
	}
	return a.ID < b.ID
}

// choose returns the threshold removals, and those that were spared.
func (o oracle) choose(v *verdict, aged, rest []string) (chosen, spared []string) {
	covers := func(gone []string, need [2]uint64) bool {
		bytes, inodes, _, _ := o.freed(gone)
		return bytes >= need[0] && inodes >= need[1]
	}
	prefix := func(order []string, need [2]uint64) []string {
		for n := range order {
			if covers(slices.Concat(aged, order[:n]), need) {
				return order[:n]
			}
		}
		return order
	}
	all := slices.Concat(aged, rest)
	allBytes, allInodes, _, _ := o.freed(all)
	stuck := [2]bool{allBytes < v.Need[0], allInodes < v.Need[1]}
	if stuck == [2]bool{} {
		chosen = prefix(rest, v.Need)
		return o.prune(v, aged, chosen, stuck, v.Need)
	}
	v.Hold = &holds{}
	needed, listed := v.Need, func(img Image) bool { return o.unused(img) }
	if o.renewed(stuck, rest) {
		chosen = rest
		for _, img := range o.s.Images {
			if o.fixed(img) == KeptUseUnknown {
				v.Hold.Unread = append(v.Hold.Unread, img.ID)
			}
		}
		slices.Sort(v.Hold.Unread)
	} else {
		v.Hold.Unread = o.s.Hold.Unread
		listed = func(img Image) bool {
			return slices.Contains(o.s.Hold.Images, img.ID) && (o.unused(img) || o.fixed(img) == KeptUseUnknown)
		}
		needed = [2]uint64{max(needed[0], o.s.Hold.NeedBytes), max(needed[1], o.s.Hold.NeedInodes)}
		var own, others []string
		for _, id := range rest {
			if slices.Contains(o.s.Hold.Images, id) {
				own = append(own, id)
			} else {
				others = append(others, id)
			}
		}
		need := v.Need
		for i := range need {
			if stuck[i] {
				need[i] = 0
			}
		}
		order := slices.Concat(own, others)
		chosen = prefix(order, need)
		if len(chosen) < len(own) {
			chosen = own
		}
	}
	for _, img := range o.s.Images {
		if listed(img) {
			v.Hold.Images = append(v.Hold.Images, img.ID)
		}
	}
	slices.Sort(v.Hold.Images)
	return o.prune(v, aged, chosen, stuck, needed)
}

// unused: nothing but youth and what is not known of the pods may keep it.
func (o oracle) unused(img Image) bool {
	switch o.fixed(img) {
	case "", KeptPodsUnknown, KeptYoung:
		return true
	}
	return false
}

func (o oracle) renewed(stuck [2]bool, rest []string) bool {
	hold, d := o.s.Hold, o.s.Disk
	if hold == nil || slices.ContainsFunc(o.s.Images, func(i Image) bool { return i.Unread == "" && slices.Contains(hold.Unread, i.ID) }) {
		return true
	}
	point := func(capacity uint64) uint64 { return (capacity + 99) / 100 }
	another := slices.ContainsFunc(rest, func(id string) bool { return !slices.Contains(hold.Images, id) })
	return stuck[0] && (!hold.Bytes || hold.AvailableBytes >= d.AvailableBytes+point(d.CapacityBytes) || another && d.AvailableBytes < point(d.CapacityBytes)) ||
		stuck[1] && (!hold.Inodes || hold.InodesAvailable >= d.InodesAvailable+point(d.Inodes) || another && d.InodesAvailable < point(d.Inodes))
}

// prune takes out, newest first, what the low thresholds do not miss; of a threshold that
// cannot be reached, what is too little of what is needed.
func (o oracle) prune(v *verdict, aged, chosen []string, stuck [2]bool, needed [2]uint64) (left, spared []string) {
	left = slices.Clone(chosen)
	allBytes, allInodes, _, _ := o.freed(slices.Concat(aged, chosen))
	all := [2]uint64{allBytes, allInodes}
	for _, id := range slices.Backward(chosen) {
		without := slices.DeleteFunc(slices.Clone(left), func(other string) bool { return other == id })
		before, beforeInodes, snapshots, nodes := o.freed(slices.Concat(aged, left))
		after, afterInodes, snapshotsAfter, nodesAfter := o.freed(slices.Concat(aged, without))
		keep := true
		for i, remains := range [2]uint64{after, afterInodes} {
			if stuck[i] && (all[i]-remains)*100 > needed[i]*uint64(o.s.Policy.FutileShare) || !stuck[i] && remains < v.Need[i] {
				keep = false
			}
		}
		for n, yes := range nodes {
			if node := o.s.Graph.Nodes[n]; yes && !nodesAfter[n] && node.Kind == NodeSnapshot && node.Bytes+node.Inodes == 0 {
				keep = false // never measured
			}
		}
		if !keep {
			continue
		}
		left, spared = without, append(spared, id)
		nothing := after == before && afterInodes == beforeInodes && snapshots == snapshotsAfter
		switch {
		case nothing, snapshots == snapshotsAfter && o.unpacked(id):
			v.Kept[id] = KeptFreesNothing
		case stuck[0] || stuck[1]:
			v.Kept[id] = KeptFutile
		default:
			v.Kept[id] = KeptNotNeeded
		}
	}
	return left, spared
}

func (o oracle) unpacked(id string) bool {
	alone := oracle{Snapshot{Graph: Graph{Nodes: o.s.Graph.Nodes}}, o.now}
	for _, img := range o.s.Images {
		if img.ID == id {
			alone.s.Images = append(alone.s.Images, img)
		}
	}
	_, _, snapshots, _ := alone.freed([]string{id})
	return snapshots > 0
}

func (o oracle) explain(v *verdict, aged, rest []Image, chosen, spared []string) {
	var gone []string
	var bytes, inodes uint64
	var snapshots int
	remove := func(id string, reason Reason) {
		gone = append(gone, id)
		b, i, s, _ := o.freed(gone)
		v.Remove = append(v.Remove, Decision{
			ImageID: id, Reason: reason,
			FreesBytes: b - bytes, FreesInodes: i - inodes, FreesLayer: s > snapshots,
		})
		bytes, inodes, snapshots = b, i, s
	}
	for _, img := range aged {
		remove(img.ID, RemovedAge)
	}
	for _, id := range chosen {
		remove(id, RemovedThreshold)
	}
	for _, img := range rest {
		switch {
		case slices.Contains(chosen, img.ID):
		case slices.Contains(spared, img.ID): // set by prune
		case v.Hold != nil:
			v.Kept[img.ID] = KeptHold
		default:
			v.Kept[img.ID] = KeptNotNeeded
		}
	}
}

func ids(images []Image) []string {
	var list []string
	for _, img := range images {
		list = append(list, img.ID)
	}
	return list
}
