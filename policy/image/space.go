package image

import (
	"cmp"
	"slices"
)

// keptOrder decides to which reason space is attributed that several images hold: the first
// in this list, the strongest claim.
var keptOrder = []Reason{
	KeptBlocked, KeptInUse, KeptWanted, KeptPinned, KeptSandbox, KeptByRule,
	KeptUseUnknown, KeptPodsUnknown, KeptYoung, KeptFailed, KeptNotNeeded, KeptFreesNothing, KeptFutile, KeptHold,
}

// space returns what holds the disk once removed is gone, largest first. The lines and what
// removed frees add up to the used space, unless the graph claims more than that.
func (d *decision) space(removed []*candidate) []Space {
	m := newMarker(d.Graph.Nodes)
	var lines []Space
	line := func(by string, w weight, images int) {
		if images > 0 || w.bytes > 0 || w.inodes > 0 {
			lines = append(lines, Space{By: by, Bytes: w.bytes, Inodes: w.inodes, Images: images})
		}
	}
	byReason := make(map[Reason][]*candidate)
	for _, c := range d.images {
		if c.keep != "" {
			byReason[c.keep] = append(byReason[c.keep], c)
		}
	}
	for _, reason := range keptOrder {
		var w weight
		for _, c := range byReason[reason] {
			w = w.add(m.reach(c.Roots))
		}
		line(string(reason), w, len(byReason[reason]))
	}
	var others weight
	for _, h := range d.Graph.Holders {
		others = others.add(m.reach(h.Nodes))
	}
	line(SpaceOtherHolders, others, 0)
	for _, c := range removed {
		m.reach(c.Roots) // about to be freed: no line
	}
	line(SpaceUnreferenced, m.unmarked(), 0)
	line(SpaceNotImages, d.used().sub(d.Graph.total()), 0)

	slices.SortStableFunc(lines, func(a, b Space) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Inodes, a.Inodes))
	})
	return lines
}

func (d *decision) used() weight {
	return weight{
		bytes:  satSub(d.Disk.CapacityBytes, d.Disk.AvailableBytes),
		inodes: satSub(d.Disk.Inodes, d.Disk.InodesAvailable),
	}
}
