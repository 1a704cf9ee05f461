package bpf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// HeatMode says what layer heat may cost.
type HeatMode uint8

// The modes. HeatReads makes a difference only where files are not seen being
// opened; there it also sees each read(2), for some tens of nanoseconds of every
// read of the node.
const (
	HeatAuto HeatMode = iota
	HeatOff
	HeatReads
)

// The tiers of layer heat, as HeatTier and metrics name them.
const (
	HeatByFentry = "fentry" // every open, by fentry
	HeatByKprobe = "kprobe" // every open, by a kprobe, which costs more
	HeatByPages  = "pages"  // files that are executed or mapped
	HeatByReads  = "reads"  // those, and files that are read
	HeatNone     = "none"   // nothing
)

// HeatTiers lists them.
var HeatTiers = []string{HeatByFentry, HeatByKprobe, HeatByPages, HeatByReads, HeatNone}

const objectHeat = "heat"

// Which programs make up a tier, and where they go.
var heatAttach = map[string]map[string]string{
	HeatByFentry: {heatProgHeatOpen: "security_file_open"},
	HeatByKprobe: {heatProgHeatOpenKprobe: "security_file_open"},
	HeatByPages:  {heatProgHeatMap: "mm_filemap_map_pages", heatProgHeatFault: "mm_filemap_fault"},
	HeatByReads: {
		heatProgHeatMap: "mm_filemap_map_pages", heatProgHeatFault: "mm_filemap_fault",
		heatProgHeatRead: "mm_filemap_get_pages",
	},
}

// heatSize is how much is kept; the zero value is as heat.h has it.
type heatSize struct {
	layers, buckets uint32
}

// heatObject is heat.bpf.c with the programs of one tier.
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
	// At first all slots are free to be taken.
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
		name:    objectHeat,
		code:    append([]byte(tier), _HeatBytes...),
		spec:    spec,
		maps:    heatKept(),
		attach:  heatAttach[tier],
		modules: []string{"overlay"},
		needs:   "overlay",
	}, err
}

// heatKept are the maps that a later set goes on with.
func heatKept() []string {
	return []string{heatMapHeatLayers, heatMapHeatSlots, heatMapHeatStock, heatMapHeatStocked, heatMapHeatSeen, heatMapHeatCounts}
}

// heatCandidates lists the tiers to try, best first.
func heatCandidates(mode HeatMode) []string {
	if mode == HeatReads {
		return []string{HeatByFentry, HeatByKprobe, HeatByReads}
	}
	return []string{HeatByFentry, HeatByKprobe, HeatByPages}
}

// loadHeat attaches the best tier that this kernel allows, or goes on with it if it
// is pinned. One that is pinned does not keep a better one out, which was refused
// to the process before: for a capability, for its version, or because tracefs was
// not mounted. Both record until the better one has taken over.
func (p *Probes) loadHeat(types *btf.Cache) error {
	tiers := p.options.heatTiers
	if tiers == nil {
		tiers = heatCandidates(p.options.Heat)
	}
	var refused []error
	for _, tier := range tiers {
		o, err := heatObject(tier, p.options.heatSize)
		if err != nil {
			return err
		}
		if err = p.openHeat(o, types); err == nil {
			p.heatTier, p.heatErr = tier, nil
			p.log.Info("layer heat", "tier", tier, "reason", heatReason(refused))
			return nil
		}
		refused = append(refused, fmt.Errorf("%s: %w", tier, classify(err)))
	}
	p.heatTier, p.heatErr = HeatNone, errors.Join(refused...)
	p.say("layer heat is not known", p.heatErr)
	return nil
}

func heatReason(refused []error) string {
	if len(refused) == 0 {
		return "the best there is"
	}
	return "better ones are refused: " + strings.ReplaceAll(errors.Join(refused...).Error(), "\n", "; ")
}

// openHeat brings up one tier. New programs work on the maps of those before
// them, so that at every moment one or both record, and no file counts twice.
func (p *Probes) openHeat(o *object, types *btf.Cache) error {
	dirs, err := p.pins.outdated(o)
	if err != nil {
		return err
	}
	// Its own set may turn out to be damaged.
	for _, dir := range append([]string{p.pins.dirOf(o)}, dirs...) {
		if o.reuse = openHeatMaps(o, dir); o.reuse != nil {
			defer closeMaps(o.reuse)
			break
		}
	}
	if p.heat, err = p.open(o, types); err != nil {
		return err
	}
	if o.reuse == nil && len(dirs) > 0 {
		p.log.Info("layer heat begins anew", "reason", "earlier records have another layout")
	}
	if dirs, err = p.pins.outdated(o); err != nil {
		return err
	}
	if err := (heatTable{p.heat.maps}).reclaim(); err != nil {
		p.log.Warn("layers that are gone keep their place", "object", o.name, "reason", err)
	}
	p.removeEarlier(p.pins, dirs)
	return nil
}

// openHeatMaps opens the maps of an earlier set; nil if they are not all there,
// not of o's shape, or somebody else's.
func openHeatMaps(o *object, dir string) map[string]*ebpf.Map {
	if trustedSet(dir) != nil {
		return nil
	}
	found := map[string]*ebpf.Map{}
	for _, name := range o.maps {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "maps", name), nil)
		if err == nil {
			found[name] = m
			err = o.spec.Maps[name].Compatible(m)
		}
		if err != nil {
			closeMaps(found)
			return nil
		}
	}
	return found
}

func closeMaps(all map[string]*ebpf.Map) {
	for _, m := range all {
		m.Close()
	}
}

// dropHeat ends what an earlier process began.
func (p *Probes) dropHeat() error {
	p.heatTier, p.heatErr = HeatNone, errHeatOff
	dirs, err := filepath.Glob(filepath.Join(p.pins.dir, objectHeat+"-*"))
	if err != nil {
		return fmt.Errorf("find earlier layer heat: %w", err)
	}
	p.removeEarlier(p.pins, dirs)
	return nil
}

var errHeatOff = errors.New("switched off")

// pinnedTier puts the tier that is pinned below dir, if one is, in the place of
// the heat object among all.
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
