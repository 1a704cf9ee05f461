package image

import (
	"math"
	"slices"
)

// choose sets how many images of d.order go, and which of them are spared.
func (d *decision) choose() {
	d.stuck = d.need.sub(sum(d.frees))
	if d.stuck == (weight{}) {
		d.chosen = d.shortest(d.need)
		d.giveBack()
		return
	}
	if d.swept = d.renews(); d.swept {
		d.chosen = len(d.order)
		d.giveBack()
		return
	}
	// In a hold, the images that it lists go, and those that a reachable threshold needs.
	listed := d.listed()
	d.arrange(func(c *candidate) bool { return listed[c] })
	own := d.aged
	for own < len(d.order) && listed[d.order[own]] {
		own++
	}
	d.chosen = max(d.shortest(d.reachable()), own)
	d.giveBack()
}

// shortest returns the length of the shortest prefix of the order that covers need. It always
// includes the images that go by age.
func (d *decision) shortest(need weight) int {
	freed := sum(d.frees[:d.aged])
	n := d.aged
	for ; n < len(d.order) && !freed.covers(need); n++ {
		freed = freed.add(d.frees[n])
	}
	return n
}

// reachable returns the need of the dimensions (bytes, inodes) that are not stuck.
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

var unlimited = weight{bytes: math.MaxUint64, inodes: math.MaxUint64, snapshots: math.MaxInt}

// giveBack spares chosen images, newest first, as long as all spared images together cost no
// more than slack. Images that go by age are not spared.
//
// A layer without bytes and inodes was never measured, so an image that frees such a layer is
// not spared.
//
// This spares images that share their layers with images that stay, and small images that
// precede a large one that exceeds the need by far. If two images with the same layers both
// go, each weighs as much as both together.
func (d *decision) giveBack() {
	d.spared = make(map[*candidate]reprieve)
	if d.chosen <= d.aged {
		return // the usual case, without a walk over thousands of images
	}
	slack := d.slack()
	bare := newMarker(d.Graph.Nodes) // marks only nodes that reach no snapshot
	stays := d.stays.clone()
	for _, c := range d.order[d.chosen:] {
		stays.reach(c.Roots)
	}
	for i := d.chosen - 1; i >= d.aged; i-- {
		c := d.order[i]
		costs, ok := stays.tryStay(c.Roots, slack)
		if !ok {
			continue
		}
		layers := unlimited
		layers.snapshots = 0
		_, neverUnpacked := bare.tryStay(c.Roots, layers)
		d.spared[c] = reprieve{
			costs:   costs,
			nothing: costs == weight{} || costs.snapshots == 0 && !neverUnpacked,
		}
		slack.bytes, slack.inodes = slack.bytes-costs.bytes, slack.inodes-costs.inodes
	}
}

// reprieve is why a chosen image is spared.
type reprieve struct {
	costs   weight // what it would free in addition to those that go
	nothing bool   // it would free no layer
}

// slack returns how much space sparing images may cost. If the low threshold is reached, it
// must still be reached. If it cannot be reached, FutileShare of what was needed when the
// hold began may stay: ebb's own removals do not make the rest worth more. A resource without
// a need sets no limit.
//
// Images are spared this way only if the other threshold, if it can be reached, is still
// reached. Example: 40 of 7,600 inodes are not worth seven images ([KeptFutile]).
func (d *decision) slack() weight {
	slack, over := unlimited, sum(d.frees[:d.chosen]).sub(d.need)
	needed := d.needed()
	limit := func(slack *uint64, need, stuck, over, needed uint64) {
		switch {
		case stuck > 0:
			*slack = shareOf(needed, d.Policy.FutileShare)
		case need > 0:
			*slack = over
		}
	}
	limit(&slack.bytes, d.need.bytes, d.stuck.bytes, over.bytes, needed.bytes)
	limit(&slack.inodes, d.need.inodes, d.stuck.inodes, over.inodes, needed.inodes)
	return slack
}

// needed returns the larger of the need now and the need recorded in the hold. A hold that
// begins or is renewed starts from the need now.
func (d *decision) needed() weight {
	needed := d.need
	if !d.swept && d.Hold != nil {
		needed.bytes = max(needed.bytes, d.Hold.NeedBytes)
		needed.inodes = max(needed.inodes, d.Hold.NeedInodes)
	}
	return needed
}

// renews reports whether a hold begins, or one more attempt is due: an image that could not be judged when it began can be
// now, or the disk is so much worse. A disk that has less than that left cannot get so much worse: there, one is
// due when another image may go.
func (d *decision) renews() bool {
	hold, disk := d.Hold, d.Disk
	if hold == nil {
		return true
	}
	if unread := setOf(hold.Unread); slices.ContainsFunc(d.images, func(c *candidate) bool { return c.Unread == "" && unread[c.ID] }) {
		return true
	}
	worse := func(stuck uint64, held bool, capacity, was, is uint64) bool {
		point := percentUp(capacity, 1)
		return stuck > 0 && (!held || satSub(was, is) >= point || is < point && d.another())
	}
	return worse(d.stuck.bytes, hold.Bytes, disk.CapacityBytes, hold.AvailableBytes, disk.AvailableBytes) ||
		worse(d.stuck.inodes, hold.Inodes, disk.Inodes, hold.InodesAvailable, disk.InodesAvailable)
}

// another reports whether an image that was not unused when the hold began may go, other than by age.
func (d *decision) another() bool {
	listed := d.listed()
	return slices.ContainsFunc(d.order[d.aged:], func(c *candidate) bool { return !listed[c] })
}

// listed returns the images that were already unused when the hold began, and still are or may be.
func (d *decision) listed() map[*candidate]bool {
	ids := setOf(d.Hold.Images)
	listed := make(map[*candidate]bool, len(ids))
	for _, c := range d.images {
		if (c.unused || c.keep == KeptUseUnknown) && ids[c.ID] {
			listed[c] = true
		}
	}
	return listed
}

func setOf(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// hold returns the hold after this plan.
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
	if hold.Bytes {
		hold.EndsAtBytes = satAdd(d.Disk.AvailableBytes, d.stuck.bytes)
	}
	if hold.Inodes {
		hold.EndsAtInodes = satAdd(d.Disk.InodesAvailable, d.stuck.inodes)
	}
	var listed map[*candidate]bool
	needed := d.needed()
	hold.NeedBytes, hold.NeedInodes = needed.bytes, needed.inodes
	if !d.swept {
		hold.AvailableBytes, hold.InodesAvailable, hold.Unread = d.Hold.AvailableBytes, d.Hold.InodesAvailable, d.Hold.Unread
		listed = d.listed()
	}
	for _, c := range d.images {
		if c.unused && d.swept || listed[c] {
			hold.Images = append(hold.Images, c.ID)
		}
		if c.keep == KeptUseUnknown && d.swept {
			hold.Unread = append(hold.Unread, c.ID)
		}
	}
	return hold
}
