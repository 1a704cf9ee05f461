package cascade

import "hash/maphash"

// uidIndex finds the first node of a chain by its UUID. It holds places alone, some
// five bytes each, because the UUID stands in the node: a map takes forty. It is cut
// into parts that grow each by itself, so that no single input pays for all. The seed
// is random, because references may bear whatever UUID somebody likes.
type uidIndex struct {
	seed  maphash.Seed
	parts [256]uidPart
}

// uidPart is a hash table with linear probing.
type uidPart struct {
	slots []index // 0 is free
	used  int
}

// fewSlots is what a part begins with.
const fewSlots = 8

func newUIDIndex() uidIndex { return uidIndex{seed: maphash.MakeSeed()} }

// lookup is where a UUID stands, or would: its part, and where in it the search begins.
func (x *uidIndex) lookup(u uid) (p *uidPart, home int) {
	h := maphash.Bytes(x.seed, u[:])
	p = &x.parts[h>>56]
	return p, p.home(h)
}

func (p *uidPart) home(h uint64) int { return int(h & 0xffffffff * uint64(len(p.slots)) >> 32) }

// first is the node that was given to setFirst, or 0.
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

// setFirst notes the first node with a UUID; 0 forgets the UUID. The nodes still have it.
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

// closeGap moves back what a search would not find any more beyond a slot that became
// free.
func (s *store) closeGap(p *uidPart, gap int) {
	for at := p.next(gap); p.slots[at] != 0; at = p.next(at) {
		home := p.home(maphash.Bytes(s.uuids.seed, s.at(p.slots[at]).uid[:]))
		// Between the gap and here, going round: it is found without passing the gap.
		if gap < at && gap < home && home <= at || at < gap && (gap < home || home <= at) {
			continue
		}
		p.slots[gap], p.slots[at] = p.slots[at], 0
		gap = at
	}
}

// resize makes room for what is there in so many slots; in none if nothing is.
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
