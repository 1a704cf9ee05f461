package cascade

import "hash/maphash"

// uidIndex finds the first node of a chain by its UUID. It stores only indexes, some five
// bytes each, because the UUID is in the node. A map takes forty. It is split into parts
// that grow separately, so that no single input pays for all. The seed is random, because
// anyone can write any UUID into a reference.
type uidIndex struct {
	seed  maphash.Seed
	parts [256]uidPart
}

// uidPart is a hash table with linear probing.
type uidPart struct {
	slots []index // 0 is free
	used  int
}

// fewSlots is the initial size of a part.
const fewSlots = 8

func newUIDIndex() uidIndex { return uidIndex{seed: maphash.MakeSeed()} }

// lookup returns the part for a UUID, and the slot at which the search in it begins.
func (x *uidIndex) lookup(u uid) (p *uidPart, home int) {
	h := maphash.Bytes(x.seed, u[:])
	p = &x.parts[h>>56]
	return p, p.home(h)
}

func (p *uidPart) home(h uint64) int { return int(h & 0xffffffff * uint64(len(p.slots)) >> 32) }

// first returns the node that setFirst noted for a UUID; 0 if none.
func (s *store) first(u uid) index {
	p, at := s.uuids.lookup(u)
	if len(p.slots) == 0 {
		return 0
	}
	return p.slots[s.seek(p, at, u)]
}

// seek finds the slot of a UUID, or the free one that ends the search.
func (s *store) seek(p *uidPart, at int, u uid) int {
	for i := p.slots[at]; i != 0; i = p.slots[at] {
		if n := s.at(i); n.flags&otherUID == 0 && n.uid == u {
			break
		}
		at = p.next(at)
	}
	return at
}

func (p *uidPart) next(at int) int {
	if at++; at == len(p.slots) {
		return 0
	}
	return at
}

// setFirst notes the first node with a UUID; 0 removes the UUID. The nodes must still have
// the UUID.
func (s *store) setFirst(u uid, i index) {
	p, at := s.uuids.lookup(u)
	if i != 0 && (p.used+1)*5 > len(p.slots)*4 {
		s.resize(p, max(fewSlots, len(p.slots)*5/4))
		p, at = s.uuids.lookup(u)
	}
	if len(p.slots) == 0 {
		return
	}
	at = s.seek(p, at, u)
	was := p.slots[at]
	p.slots[at] = i
	switch {
	case was == 0 && i != 0:
		p.used++
	case was != 0 && i == 0:
		p.used--
		s.closeGap(p, at)
		if p.used*3 < len(p.slots) && len(p.slots) >= 2*fewSlots || p.used == 0 {
			s.resize(p, len(p.slots)/2)
		}
	}
}

// closeGap moves back the entries that a search would not find any more beyond a freed
// slot.
func (s *store) closeGap(p *uidPart, gap int) {
	for at := p.next(gap); p.slots[at] != 0; at = p.next(at) {
		home := p.home(maphash.Bytes(s.uuids.seed, s.at(p.slots[at]).uid[:]))
		// home is between gap and at, with wrap-around: the search does not pass the gap.
		if gap < at && gap < home && home <= at || at < gap && (gap < home || home <= at) {
			continue
		}
		p.slots[gap], p.slots[at] = p.slots[at], 0
		gap = at
	}
}

// resize moves the entries of a part to a new table of that many slots. A part that has
// become empty gets no table.
func (s *store) resize(p *uidPart, slots int) {
	old := p.slots
	if p.slots = nil; p.used == 0 && len(old) > 0 {
		return
	}
	p.slots = make([]index, slots)
	for _, i := range old {
		if i == 0 {
			continue
		}
		u := s.at(i).uid
		at := p.home(maphash.Bytes(s.uuids.seed, u[:]))
		for p.slots[at] != 0 {
			at = p.next(at)
		}
		p.slots[at] = i
	}
}
