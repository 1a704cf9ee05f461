package bpf

import (
	"errors"
	"maps"
	"os"

	"github.com/cilium/ebpf"
)

// HeatMode is what layer heat may cost.
type HeatMode uint8

// The modes. HeatReads makes a difference only where the opening of files cannot be
// seen. There it also records each read(2), for some tens of nanoseconds of every read
// of the node.
const (
	HeatAuto HeatMode = iota
	HeatOff
	HeatReads
)

// The tiers of layer heat, as HeatTier and metrics name them. The first two recognize
// an opened file of a lower layer by the private mount it is opened through (Linux 6.5;
// ovl_open, fs/overlayfs/file.c; backing_file_open, fs/backing-file.c), or by the
// overlay's path that it bears. The tracepoints of the page cache need Linux 6.12
// (filemap_map_pages, mm/filemap.c). They identify a file, not the path to it: a
// container that bind-mounts its own image's layers makes them warm.
const (
	HeatByFentry = "fentry" // every open, by fentry
	HeatByKprobe = "kprobe" // every open, by a kprobe, which costs more
	HeatByPages  = "pages"  // files that are executed or mapped
	HeatByReads  = "reads"  // files that are executed, mapped or read
	HeatNone     = "none"   // not recorded
)

// HeatTiers lists all tiers.
var HeatTiers = []string{HeatByFentry, HeatByKprobe, HeatByPages, HeatByReads, HeatNone}

const objectHeat = "heat"

// heatAttach has the programs of each tier, and the tracepoint or function of each
// program.
var heatAttach = map[string]map[string]string{
	HeatByFentry: {heatProgHeatOpen: "security_file_open"},
	HeatByKprobe: {heatProgHeatOpenKprobe: "security_file_open"},
	HeatByPages:  {heatProgHeatMap: "mm_filemap_map_pages", heatProgHeatFault: "mm_filemap_fault"},
	HeatByReads: {
		heatProgHeatMap: "mm_filemap_map_pages", heatProgHeatFault: "mm_filemap_fault",
		heatProgHeatRead: "mm_filemap_get_pages",
	},
}

// heatSize has the sizes of the maps; 0 keeps the size in heat.h.
type heatSize struct {
	layers, buckets uint32
}

// heatObject returns heat.bpf.c with the programs of one tier.
func heatObject(tier string, size heatSize) (*object, error) {
	spec, err := loadHeat()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return heatAttach[tier][name] == "" })
	if size.layers > 0 {
		for _, name := range []string{heatMapHeatLayers, heatMapHeatSlots, heatMapHeatStock} {
			spec.Maps[name].MaxEntries = size.layers
		}
	}
	if size.buckets > 0 {
		spec.Maps[heatMapHeatSeen].MaxEntries = size.buckets
	}
	// At first all slots are in the stock.
	ring := spec.Maps[heatMapHeatStock].MaxEntries
	for slot := range ring {
		spec.Maps[heatMapHeatStock].Contents = append(spec.Maps[heatMapHeatStock].Contents, ebpf.MapKV{Key: slot, Value: slot})
	}
	spec.Maps[heatMapHeatStocked].Contents = []ebpf.MapKV{{Key: uint32(stockPut), Value: uint64(ring)}}
	err = errors.Join(
		spec.Variables[heatVarHeatRing].Set(ring),
		spec.Variables[heatVarHeatBuckets].Set(spec.Maps[heatMapHeatSeen].MaxEntries),
	)
	return &object{
		name:   objectHeat,
		code:   append([]byte(tier), _HeatBytes...),
		spec:   spec,
		maps:   []string{heatMapHeatLayers, heatMapHeatSlots, heatMapHeatStock, heatMapHeatStocked, heatMapHeatSeen, heatMapHeatCounts},
		attach: heatAttach[tier],
		needs:  "overlay",
	}, err
}

// heatCandidates lists the tiers to try, best first.
func heatCandidates(mode HeatMode) []string {
	if mode == HeatReads {
		return []string{HeatByFentry, HeatByKprobe, HeatByReads}
	}
	return []string{HeatByFentry, HeatByKprobe, HeatByPages}
}

// pinnedTier replaces the heat object in all by the tier that is pinned below dir, if
// there is one.
func pinnedTier(all []*object, dir string) []*object {
	at := &pins{dir: dir}
	for i := range all {
		for tier := range heatAttach {
			if all[i].name != objectHeat {
				continue
			}
			o, err := heatObject(tier, heatSize{})
			if err != nil {
				continue // the one in all has no error
			}
			if _, err := os.Lstat(at.dirOf(o)); err == nil {
				all[i] = o
			}
		}
	}
	return all
}
