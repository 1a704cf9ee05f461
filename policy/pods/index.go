package pods

import "hash/maphash"

// index finds a Pod by its UID. It is a hash table with linear probing and takes about eleven
// bytes per Pod, because the UID is in the Pod. A map takes three times that.
type index struct {
	seed  maphash.Seed
	slots []*pod
	used  int
}

const fewSlots = 16

func newIndex() index {
	return index{seed: maphash.MakeSeed(), slots: make([]*pod, fewSlots)}
}

// home returns the slot where the search for a UID begins.
func (x *index) home(u uid) int {
	return int(maphash.Bytes(x.seed, u[:]) >> 32 * uint64(len(x.slots)) >> 32)
}

func (x *index) next(at int) int {
	if at++; at == len(x.slots) {
		return 0
	}
	return at
}

// seek returns the slot of a UID, or the free slot that ends the search.
func (x *index) seek(u uid) int {
	at := x.home(u)
	for x.slots[at] != nil && x.slots[at].uid != u {
		at = x.next(at)
	}
	return at
}

// get returns the Pod with a UID; nil if there is none.
func (x *index) get(u uid) *pod { return x.slots[x.seek(u)] }

// add adds p, which must not be in the index.
func (x *index) add(p *pod) {
	if (x.used+1)*5 > len(x.slots)*4 {
		x.resize(len(x.slots) * 5 / 4)
	}
	x.slots[x.seek(p.uid)] = p
	x.used++
}

// remove removes p, which must be in the index.
func (x *index) remove(p *pod) {
	gap := x.seek(p.uid)
	x.slots[gap] = nil
	x.used--
	for at := x.next(gap); x.slots[at] != nil; at = x.next(at) {
		home := x.home(x.slots[at].uid)
		// Its home is between the gap and here, cyclically: a search finds it without passing
		// the gap.
		if gap < at && gap < home && home <= at || at < gap && (gap < home || home <= at) {
			continue
		}
		x.slots[gap], x.slots[at] = x.slots[at], nil
		gap = at
	}
	if x.used*3 < len(x.slots) && len(x.slots) >= 2*fewSlots {
		x.resize(len(x.slots) / 2)
	}
}

func (x *index) resize(slots int) {
	old := x.slots
	x.slots = make([]*pod, slots)
	for _, p := range old {
		if p != nil {
			x.slots[x.seek(p.uid)] = p
		}
	}
}

// all yields the Pods in no order. None may be added or removed during the iteration.
func (x *index) all(yield func(*pod) bool) {
	for _, p := range x.slots {
		if p != nil && !yield(p) {
			return
		}
	}
}
