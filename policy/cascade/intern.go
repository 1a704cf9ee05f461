package cascade

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// table interns strings as numbers, and forgets those without uses. Owner references may
// contain any string, and must not fill the memory.
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

// kindName identifies a type as an owner reference does.
type kindName struct{ apiVersion, kind string }

// kind is all that is known of a type, or of a name that may be one.
type kind struct {
	kindName
	group    string
	base     string // the kind in references: see Second
	resource string
	uses     uint32 // its nodes and tombstones, and one while it is served
	// scoped is whether namespaced is known. Both are kept while the type is not served, so
	// that a flapping type moves no references.
	scoped, namespaced   bool
	aggregated, excluded bool
	phase                phase
	since                time.Time // when it became incomplete
	epoch                uint32    // of the listing
	tombstones           int       // of its objects
	head                 index     // its nodes, a ring through prev and next
	holds                container // what it contains beside its dependents
	size                 int
}

// Second names the kind of a resource that shares its kind with another resource of its
// group version, as in some aggregated API servers. Two resources are two types. References
// have only the kind, and mean an object of either type.
func Second(kind, resource string) string { return kind + "/" + resource }

// BaseKind returns the kind as the API has it, without the suffix of [Second].
func BaseKind(kind string) string {
	base, _, _ := strings.Cut(kind, "/")
	return base
}

// phase of a type is whether the graph can be trusted to have all its objects.
type phase uint8

const (
	unserved   phase = iota // never served, or not any more
	listing                 // newly served, or listed again after unreadable
	unreadable              // cannot be listed or watched
	synced
	unwatched // served, but never listed
)

// incomplete reports whether objects of the type may be unknown. Decisions that depend on
// every object wait then.
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

// version parses a resourceVersion as the number that it is on every API server of
// Kubernetes' own. Other resourceVersions are compared for equality only.
func version(s string) (v uint64, ok bool) {
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil && v != 0 && s[0] >= '1' && s[0] <= '9'
}

// finalizerSum is a hash of a list of finalizers; their order does not matter.
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
