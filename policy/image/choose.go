package image

import "math"

// choose decides how much of d.order goes, and which of it is spared.
func (d *decision) choose() {
	all := sum(d.frees)
	d.stuck = d.need.less(all)
	if d.stuck == (weight{}) {
		d.chosen = d.shortest(d.need)
		d.spare(sum(d.frees[:d.chosen]).less(d.need))
		return
	}
	if d.swept = d.renews(); d.swept {
		d.chosen = len(d.order)
		d.spare(weight{})
		return
	}
	// In a hold. Its own images go, and what a line that can be reached needs.
	listed := d.listed()
	d.arrange(func(c *candidate) bool { return listed[c] })
	own := d.aged
	for own < len(d.order) && listed[d.order[own]] {
		own++
	}
	d.chosen = max(d.shortest(d.reachable()), own)
	d.spare(weight{})
}

// shortest is the length of the shortest part of the order that covers need,
// never less than those that go by age.
func (d *decision) shortest(need weight) int {
	freed := sum(d.frees[:d.aged])
	n := d.aged
	for ; n < len(d.order) && !freed.covers(need); n++ {
		freed = freed.and(d.frees[n])
	}
	return n
}

// reachable is the need of those dimensions that are not stuck.
func (d *decision) reachable() weight {
	need := d.need
	if d.stuck.bytes > 0 {
		need.bytes = 0
	}
	if d.stuck.inodes > 0 {
		need.inodes = 0
	}
	return need
}

var unlimited = weight{bytes: math.MaxUint64, inodes: math.MaxUint64}

// spare keeps chosen images that gain nothing, as long as no more than slack
// is lost: images whose layers all stay, because what stays leads to them. The
// newest come first. Images that go by age are not spared.
//
// An image that was never unpacked has no layers to judge by. It is spared
// only if it frees nothing at all.
func (d *decision) spare(slack weight) {
	d.spared = make(map[*candidate]bool)
	bare := newMarker(d.Graph.Nodes) // marks only what leads to no snapshot
	stays := d.stays.clone()
	for _, c := range d.order[d.chosen:] {
		stays.reach(c.Roots)
	}
	for i := d.chosen - 1; i >= d.aged; i-- {
		c := d.order[i]
		limit := slack
		if _, neverUnpacked := bare.tryStay(c.Roots, unlimited); neverUnpacked {
			limit = weight{}
		}
		if costs, ok := stays.tryStay(c.Roots, limit); ok {
			d.spared[c] = true
			slack = slack.less(costs)
		}
	}
}

// renews says that a hold begins, or that the disk got enough worse for one
// more attempt.
func (d *decision) renews() bool {
	hold, disk := d.Hold, d.Disk
	if hold == nil {
		return true
	}
	worse := func(stuck uint64, held bool, capacity, was, is uint64) bool {
		return stuck > 0 && (!held || sub(was, is) >= percentUp(capacity, 1))
	}
	return worse(d.stuck.bytes, hold.Bytes, disk.CapacityBytes, hold.AvailableBytes, disk.AvailableBytes) ||
		worse(d.stuck.inodes, hold.Inodes, disk.Inodes, hold.InodesAvailable, disk.InodesAvailable)
}

// listed are the images that were already unused when the hold began, and
// still are.
func (d *decision) listed() map[*candidate]bool {
	ids := make(map[string]bool, len(d.Hold.Images))
	for _, id := range d.Hold.Images {
		ids[id] = true
	}
	listed := make(map[*candidate]bool, len(ids))
	for _, c := range d.images {
		if c.unused && ids[c.ID] {
			listed[c] = true
		}
	}
	return listed
}

// hold is the state of the hold after this plan.
func (d *decision) hold(removed []*candidate) *Hold {
	hold := &Hold{
		Since:           d.now,
		Bytes:           d.stuck.bytes > 0,
		Inodes:          d.stuck.inodes > 0,
		AvailableBytes:  d.Disk.AvailableBytes,
		InodesAvailable: d.Disk.InodesAvailable,
		Space:           d.space(removed),
	}
	if d.Hold != nil {
		hold.Since = d.Hold.Since
	}
	var listed map[*candidate]bool
	if !d.swept {
		hold.AvailableBytes, hold.InodesAvailable = d.Hold.AvailableBytes, d.Hold.InodesAvailable
		listed = d.listed()
	}
	for _, c := range d.images {
		if c.unused && (d.swept || listed[c]) {
			hold.Images = append(hold.Images, c.ID)
		}
	}
	return hold
}
