package cascade

import (
	"encoding/hex"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// uid is a UID in 16 bytes: the UUID itself or, for a UID of another form, its
// number in the table of those. Which of the two it is, the flag beside it says.
type uid [16]byte

// parseUUID takes only the canonical form, so that String gives back what was
// read.
func parseUUID(s string) (u uid, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, false
	}
	at := 0
	for i := 0; i < len(s); {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			i++
			continue
		}
		high, low := nibble(s[i]), nibble(s[i+1])
		if high > 15 || low > 15 {
			return u, false
		}
		u[at] = high<<4 | low
		at, i = at+1, i+2
	}
	return u, true
}

func nibble(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

func (u uid) String() string {
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:], u[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// table gives strings numbers, and forgets those that nobody uses: owner
// references may say anything, and must not fill the memory for good.
type table struct {
	ids  map[string]uint32
	all  []interned
	free []uint32
}

type interned struct {
	text string
	uses uint32
}

func (t *table) acquire(s string) uint32 {
	id, ok := t.ids[s]
	if !ok {
		if t.ids == nil {
			t.ids = make(map[string]uint32)
		}
		s = strings.Clone(s)
		if n := len(t.free); n > 0 {
			id, t.free = t.free[n-1], t.free[:n-1]
			t.all[id] = interned{text: s}
		} else {
			id = uint32(len(t.all))
			t.all = append(t.all, interned{text: s})
		}
		t.ids[s] = id
	}
	t.all[id].uses++
	return id
}

func (t *table) release(id uint32) {
	if t.all[id].uses--; t.all[id].uses == 0 {
		delete(t.ids, t.all[id].text)
		t.all[id] = interned{}
		t.free = append(t.free, id)
	}
}

// kindName is what an owner reference says of a type.
type kindName struct{ apiVersion, kind string }

// kind is all that is known of a type, or of a name that may be one.
type kind struct {
	kindName
	group    string
	base     string // what references call it: see Second
	resource string
	uses     uint32 // nodes of it, and one while it is served
	// scoped says that it is known whether it is namespaced. That is kept
	// while the type is away: flapping must not move anything.
	scoped, namespaced   bool
	aggregated, excluded bool
	phase                phase
	since                time.Time // it is incomplete
	epoch                uint32    // of the listing
	tombstones           int       // of its objects
	head                 index     // its nodes, a ring through prev and next
	holds                container // more than its dependents
	size                 int
}

// Second names the kind of a resource that shares it with another resource of its group
// version, as some aggregated API servers have it: two resources are two types. References
// name the kind alone, and mean an object of either.
func Second(kind, resource string) string { return kind + "/" + resource }

// BaseKind is the kind as the API has it.
func BaseKind(kind string) string {
	base, _, _ := strings.Cut(kind, "/")
	return base
}

// phase of a type: how far what the graph has of it can be trusted to be all.
type phase uint8

const (
	unserved   phase = iota // never came, or went
	listing                 // came, or is listed again
	unreadable              // cannot be listed
	synced
	unwatched // served, but never listed
)

// incomplete phases hold what needs to know of every object.
func (p phase) incomplete() bool { return p == listing || p == unreadable }

type kinds struct {
	ids  map[kindName]uint32
	all  []kind
	free []uint32
}

func (k *kinds) acquire(name kindName) uint32 {
	id, ok := k.ids[name]
	if !ok {
		if k.ids == nil {
			k.ids = make(map[kindName]uint32)
		}
		name = kindName{strings.Clone(name.apiVersion), strings.Clone(name.kind)}
		fresh := kind{kindName: name, group: gc.GroupOf(name.apiVersion), base: BaseKind(name.kind), holds: containerOf(name)}
		if n := len(k.free); n > 0 {
			id, k.free = k.free[n-1], k.free[:n-1]
			k.all[id] = fresh
		} else {
			id = uint32(len(k.all))
			k.all = append(k.all, fresh)
		}
		k.ids[name] = id
	}
	k.all[id].uses++
	return id
}

func (k *kinds) release(id uint32) {
	if k.all[id].uses--; k.all[id].uses == 0 {
		delete(k.ids, k.all[id].kindName)
		k.all[id] = kind{}
		k.free = append(k.free, id)
	}
}

// version reads a resourceVersion as the number it is on every API server of
// Kubernetes' own; others compare by equality alone.
func version(s string) (v uint64, ok bool) {
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil && v != 0 && s[0] >= '1' && s[0] <= '9'
}

// finalizerSum tells apart lists of finalizers; their order does not matter.
func finalizerSum(list []string) uint32 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	h := fnv.New32a()
	for _, f := range sorted {
		h.Write([]byte(f))
		h.Write([]byte{0})
	}
	return h.Sum32()
}
