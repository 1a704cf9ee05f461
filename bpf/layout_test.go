package bpf

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// layouts lists which Go types user space reads and writes a map with. A map that
// user space does not touch has none. Keys are object/map.
var layouts = map[string]struct{ key, value any }{
	"lastuse/layers":         {Key{}, uint32(0)},
	"lastuse/stamps":         {uint32(0), lastuseStamp{}},
	"lastuse/unresolved":     {Key{}, uint64(0)},
	"lastuse/lastuse_counts": {uint32(0), lastuseLastuseCounters{}},

	"usage_ext4/watches":       {uint64(0), watchValue{}},
	"usage_ext4/usage_counts":  {uint32(0), usageCounters{}},
	"usage_ext4/cpu_offsets":   {uint32(0), cpuOffsets{}},
	"usage_ext4/given_back":    {uint64(0), uint64(0)},
	"usage_xfs/watches":        {uint64(0), watchValue{}},
	"usage_xfs/usage_counts":   {uint32(0), usageCounters{}},
	"usage_xfs/cpu_offsets":    {uint32(0), cpuOffsets{}},
	"usage_xfs/given_back":     {uint64(0), uint64(0)},
	"usage_btrfs/watches":      {uint64(0), watchValue{}},
	"usage_btrfs/usage_counts": {uint32(0), usageCounters{}},
	"usage_btrfs/given_back":   {uint64(0), uint64(0)},
	"usage_btrfs/counted":      {uint64(0), uint64(0)},

	"writers/writers":        {uint64(0), writersWriter{}},
	"writers/members":        {uint64(0), nil}, // opened, never read
	"writers/devices":        {uint64(0), uint32(0)},
	"writers/watching":       {uint32(0), uint64(0)},
	"writers/accounts":       {uint32(0), writersAccount{}},
	"writers/writers_counts": {uint32(0), writersWritersCounters{}},
	"writers/blank":          {uint32(0), writersWriter{}}, // pinned for the objects that share it
	"writers/owners":         {writersInodeKey{}, uint64(0)},

	"heat/heat_layers":  {heatHeatKey{}, uint32(0)},
	"heat/heat_slots":   {uint32(0), heatHeatLayer{}},
	"heat/heat_stock":   {uint32(0), uint32(0)},
	"heat/heat_stocked": {uint32(0), uint64(0)},
	"heat/heat_seen":    {uint32(0), heatHeatBucket{}}, // as memory
	"heat/heat_counts":  {uint32(0), heatHeatCounters{}},
}

// events lists which Go types ring buffers are read with, and the C types that
// programs put into them.
var events = map[string]struct {
	name  string
	value any
}{
	"usage_ext4/crossings":  {"crossing", crossingValue{}},
	"usage_xfs/crossings":   {"crossing", crossingValue{}},
	"usage_btrfs/crossings": {"crossing", crossingValue{}},
}

// TestLayouts compares what C and Go take a map's contents for, from the BTF in
// the committed objects. One Go type serves several objects, and decoding copies
// bytes: neither the compiler nor the loader would notice a difference.
func TestLayouts(t *testing.T) {
	seen := map[string]bool{}
	all, err := objects(DefaultMaxLayers)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		for _, name := range o.maps {
			id := o.name + "/" + name
			seen[id] = true
			t.Run(id, func(t *testing.T) { compareMap(t, o.spec, id, name) })
		}
	}
	for _, id := range slices.Concat(slices.Collect(maps.Keys(layouts)), slices.Collect(maps.Keys(events))) {
		if !seen[id] {
			t.Errorf("%s: no object has this map for user space", id)
		}
	}
}

func compareMap(t *testing.T, spec *ebpf.CollectionSpec, id, name string) {
	m := spec.Maps[name]
	if e, ok := events[id]; ok {
		var c *btf.Struct
		if err := spec.Types.TypeByName(e.name, &c); err != nil {
			t.Fatalf("find struct %s: %v", e.name, err)
		}
		if m.Type != ebpf.RingBuf {
			t.Errorf("is a %v", m.Type)
		}
		compare(t, e.name, c, reflect.TypeOf(e.value))
		return
	}
	l, ok := layouts[id]
	if !ok {
		t.Fatal("user space has this map, and layouts does not say how it reads it")
	}
	compare(t, "key", m.Key, reflect.TypeOf(l.key))
	if l.value != nil {
		compare(t, "value", m.Value, reflect.TypeOf(l.value))
	}
}

// compare reports every difference between a C type and a Go type: sizes, and of
// structs the names, offsets and types of their fields.
func compare(t *testing.T, at string, c btf.Type, g reflect.Type) {
	t.Helper()
	for _, difference := range differences(at, c, g) {
		t.Error(difference)
	}
}

func differences(at string, c btf.Type, g reflect.Type) []string {
	if c == nil {
		return []string{at + ": no BTF"}
	}
	c = btf.UnderlyingType(c)
	if size, err := btf.Sizeof(c); err != nil || uintptr(size) != g.Size() {
		return []string{fmt.Sprintf("%s: %d bytes in C (%v), %d in Go", at, size, err, g.Size())}
	}
	switch c := c.(type) {
	case *btf.Struct:
		return structDifferences(at, c, g)
	case *btf.Array:
		if g.Kind() != reflect.Array || g.Len() != int(c.Nelems) {
			return []string{fmt.Sprintf("%s: [%d] in C, %s in Go", at, c.Nelems, g)}
		}
		return differences(at+"[]", c.Type, g.Elem())
	case *btf.Int:
		// A signed figure read as an unsigned one is wrong only once it is negative.
		signed := g.Kind() >= reflect.Int && g.Kind() <= reflect.Int64
		if (c.Encoding == btf.Signed) != signed && c.Encoding != btf.Char {
			return []string{fmt.Sprintf("%s: %s in C, %s in Go", at, c.Name, g)}
		}
	case *btf.Enum:
	default:
		return []string{fmt.Sprintf("%s: %T is not compared", at, c)}
	}
	return nil
}

// structDifferences goes through the fields of both in their order. Go's may
// have blank fields besides, for padding and marks.
func structDifferences(at string, c *btf.Struct, g reflect.Type) (out []string) {
	if g.Kind() != reflect.Struct {
		return []string{fmt.Sprintf("%s: a struct in C, %s in Go", at, g)}
	}
	var fields []reflect.StructField
	for i := range g.NumField() {
		if f := g.Field(i); f.Name != "_" {
			fields = append(fields, f)
		}
	}
	if len(fields) != len(c.Members) {
		return []string{fmt.Sprintf("%s: %d fields in C, %d in Go", at, len(c.Members), len(fields))}
	}
	for i, m := range c.Members {
		f, name := fields[i], at+"."+m.Name
		if !strings.EqualFold(strings.ReplaceAll(m.Name, "_", ""), f.Name) {
			out = append(out, fmt.Sprintf("%s: is %s in Go", name, f.Name))
		}
		if uintptr(m.Offset.Bytes()) != f.Offset {
			out = append(out, fmt.Sprintf("%s: at %d in C, at %d in Go", name, m.Offset.Bytes(), f.Offset))
		}
		out = append(out, differences(name, m.Type, f.Type)...)
	}
	return out
}

// TestLayoutDifferencesAreSeen keeps the comparison honest.
func TestLayoutDifferencesAreSeen(t *testing.T) {
	u64, u32 := &btf.Int{Name: "u64", Size: 8}, &btf.Int{Name: "u32", Size: 4}
	c := &btf.Struct{Name: "s", Size: 16, Members: []btf.Member{
		{Name: "boot_ns", Type: u64}, {Name: "a", Type: u32, Offset: 64}, {Name: "b", Type: u32, Offset: 96},
	}}
	for name, tt := range map[string]struct {
		value any
		want  string
	}{
		"same": {struct {
			BootNs uint64
			A, B   uint32
		}{}, ""},
		"size":  {struct{ BootNs uint64 }{}, "16 bytes in C"},
		"count": {struct{ BootNs, A uint64 }{}, "3 fields in C, 2 in Go"},
		"swapped": {struct {
			BootNs uint64
			B, A   uint32
		}{}, "is B in Go"},
		"offset": {struct {
			A, B   uint32
			BootNs uint64
		}{}, "at 8 in C, at 4 in Go"},
		"sign": {struct {
			BootNs uint64
			A      int32
			B      uint32
		}{}, "int32 in Go"},
		"kind": {[2]uint64{}, "a struct in C"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(differences("s", c, reflect.TypeOf(tt.value)), "; ")
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("differences are %q, want %q in them", got, tt.want)
			}
		})
	}
}
