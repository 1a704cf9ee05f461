package gc

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"strings"
)

// UID is a UID in 16 bytes: the UUID itself or, for a UID of another form, its hash, which is not a
// valid UUID. The zero UID is that of the empty string.
type UID [16]byte

// UIDOf returns the UID that s is.
func UIDOf(s string) (u UID) {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		var digits [32]byte
		copy(digits[:8], s[:8])
		copy(digits[8:12], s[9:13])
		copy(digits[12:16], s[14:18])
		copy(digits[16:20], s[19:23])
		copy(digits[20:], s[24:])
		if _, err := hex.Decode(u[:], digits[:]); err == nil && u.Exact() && strings.ToLower(s) == s {
			return u
		}
	}
	if s == "" {
		return UID{}
	}
	sum := sha256.Sum256([]byte(s))
	u = UID(sum[:len(u)])
	u[6] &= 0x0f // no UUID has version 0
	return u
}

// Exact reports whether u is a UUID. Otherwise String does not return the text of which u was made: who
// needs the text must keep it.
func (u UID) Exact() bool { return u[6]>>4 != 0 }

func (u UID) String() string {
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:], u[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// UIDTexts has the texts of UIDs that are not UUIDs.
type UIDTexts map[UID]string

// Keep returns the UID that s is, and keeps a copy of s if Text needs it.
func (t UIDTexts) Keep(s string) UID {
	u := UIDOf(s)
	if !u.Exact() {
		t[u] = strings.Clone(s)
	}
	return u
}

// Text returns the text of a UID that is a UUID or was kept.
func (t UIDTexts) Text(u UID) string {
	if u.Exact() {
		return u.String()
	}
	return t[u]
}

// UIDIndex finds values by the UIDs that are in them. It stores only the values: of a million nodes by
// their numbers, it takes some five bytes each, a map forty. It is split into parts that grow separately,
// so that no single input pays for all. The seed is random, because anyone can write any UID into a
// reference.
type UIDIndex[V comparable] struct {
	uid   func(V) UID
	seed  maphash.Seed
	parts [256]uidPart[V]
}

// uidPart is a hash table with linear probing.
type uidPart[V comparable] struct {
	slots []V // the zero value is a free slot
	used  int
}

// fewSlots is the initial size of a part.
const fewSlots = 8

// NewUIDIndex returns an empty index. uid returns the UID in a value, which must not change while the
// value is in the index.
func NewUIDIndex[V comparable](uid func(V) UID) *UIDIndex[V] {
	return &UIDIndex[V]{uid: uid, seed: maphash.MakeSeed()}
}

// Get returns the value with a UID; the zero value if there is none.
func (x *UIDIndex[V]) Get(u UID) (v V) {
	p, at := x.lookup(u)
	if len(p.slots) == 0 {
		return v
	}
	return p.slots[x.seek(p, at, u)]
}

// Set replaces the value with a UID; the zero value removes it. Both values must have that UID until Set
// returns.
func (x *UIDIndex[V]) Set(u UID, v V) {
	var free V
	p, at := x.lookup(u)
	if v != free && (p.used+1)*5 > len(p.slots)*4 {
		x.resize(p, max(fewSlots, len(p.slots)*5/4))
		p, at = x.lookup(u)
	}
	if len(p.slots) == 0 {
		return
	}
	at = x.seek(p, at, u)
	was := p.slots[at]
	p.slots[at] = v
	switch {
	case was == free && v != free:
		p.used++
	case was != free && v == free:
		p.used--
		x.closeGap(p, at)
		if p.used*3 < len(p.slots) && len(p.slots) >= 2*fewSlots || p.used == 0 {
			x.resize(p, len(p.slots)/2)
		}
	}
}

// Len returns how many values are in the index.
func (x *UIDIndex[V]) Len() (n int) {
	for i := range x.parts {
		n += x.parts[i].used
	}
	return n
}

// All yields the values in no order. The index must not change meanwhile.
func (x *UIDIndex[V]) All(yield func(V) bool) {
	var free V
	for i := range x.parts {
		for _, v := range x.parts[i].slots {
			if v != free && !yield(v) {
				return
			}
		}
	}
}

// lookup returns the part for a UID, and the slot at which the search in it begins.
func (x *UIDIndex[V]) lookup(u UID) (p *uidPart[V], home int) {
	h := maphash.Bytes(x.seed, u[:])
	p = &x.parts[h>>56]
	return p, p.home(h)
}

func (p *uidPart[V]) home(h uint64) int { return int(h & 0xffffffff * uint64(len(p.slots)) >> 32) }

// seek finds the slot of a UID, or the free one that ends the search.
func (x *UIDIndex[V]) seek(p *uidPart[V], at int, u UID) int {
	var free V
	for p.slots[at] != free && x.uid(p.slots[at]) != u {
		at = p.next(at)
	}
	return at
}

func (p *uidPart[V]) next(at int) int {
	if at++; at == len(p.slots) {
		return 0
	}
	return at
}

// closeGap moves back the values that a search would not find any more beyond a freed slot.
func (x *UIDIndex[V]) closeGap(p *uidPart[V], gap int) {
	var free V
	for at := p.next(gap); p.slots[at] != free; at = p.next(at) {
		_, home := x.lookup(x.uid(p.slots[at]))
		// home is between gap and at, with wrap-around: the search does not pass the gap.
		if gap < at && gap < home && home <= at || at < gap && (gap < home || home <= at) {
			continue
		}
		p.slots[gap], p.slots[at] = p.slots[at], free
		gap = at
	}
}

// resize moves the values of a part to a new table of that many slots. A part that has become empty gets
// no table.
func (x *UIDIndex[V]) resize(p *uidPart[V], slots int) {
	var free V
	old := p.slots
	if p.slots = nil; p.used == 0 && len(old) > 0 {
		return
	}
	p.slots = make([]V, slots)
	for _, v := range old {
		if v == free {
			continue
		}
		u := x.uid(v)
		_, home := x.lookup(u)
		p.slots[x.seek(p, home, u)] = v
	}
}
