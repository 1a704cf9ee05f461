package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// heat records which files of a layer its containers have touched. The figures are
// statistics; no decision rests on them.
//
// A touch counts if the process has an overlayfs as its root and the file lies on a
// lower layer of that overlay. Programs find the layer themselves and enter its root
// directory by device, inode number and generation. So a container's first reads count
// even before user space knows the image.
//
// Each file counts once. It takes one word of a fixed table: its layer's slot and 47
// bits of a hash of device, inode number and generation. With a probability of about 1
// in 10^13 a further file has the hash of a counted one, and does not count. The table
// has room for 131072 files of 4096 layers. Nothing is evicted; touches that find no
// room are counted as lost. A layer below the 255th is not looked at; runtimes stop at
// 127.
//
// Programs take slots from a stock that only Load and ForgetHeat fill, after every
// program that may hold a slot has ended. A later set of programs continues with the
// maps of the earlier one.
type heat struct {
	pins  *pins
	mode  HeatMode
	tiers []string // to try, best first
	size  heatSize

	mu sync.Mutex // guards all below
	attachment
	tier string // one of HeatTiers
}

// HeatKey identifies the root directory of a layer.
type HeatKey struct {
	// Filesystem is the superblock's s_dev (major<<20 | minor), or the
	// ErofsFilesystem of its UUID.
	Filesystem uint64
	Inode      uint64
	// Generation distinguishes the directory from an earlier one with the same inode
	// number. It is the kernel's i_generation.
	Generation uint64
}

func (k HeatKey) kernel() heatHeatKey {
	return heatHeatKey{Fs: k.Filesystem, Ino: k.Inode, Gen: k.Generation}
}

// ErofsFilesystem returns the identifier of the erofs image with a UUID, wherever it is
// mounted.
func ErofsFilesystem(uuid [16]byte) uint64 {
	low, high := binary.LittleEndian.Uint64(uuid[:8]), binary.LittleEndian.Uint64(uuid[8:])
	return low ^ high | 1<<63
}

// LayerHeat is what containers have read of a layer since the first of them touched a
// file of its image while the programs ran.
type LayerHeat struct {
	HeatKey
	SinceNS uint64 // CLOCK_BOOTTIME
	Files   uint64 // distinct files touched
	Bytes   uint64 // their sizes in whole blocks, however much of each was read
	// Lost counts touches of further files that found no room in the table. If it is
	// not 0, Files and Bytes are too low.
	Lost uint64
}

// Heat returns every known layer. A layer becomes known when a process with that layer
// in its root touches a file of the image for the first time. For other layers it is
// unknown which files were read.
func (h *heat) Heat() ([]LayerHeat, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set == nil {
		return nil, fmt.Errorf("layer heat: %w", notAttached(h.err))
	}
	read, err := heatTable{h.maps}.read()
	if err != nil {
		return nil, fmt.Errorf("layer heat: %w", err)
	}
	all := make([]LayerHeat, 0, len(read))
	for key, l := range read {
		all = append(all, LayerHeat{
			HeatKey: HeatKey{Filesystem: key.Fs, Inode: key.Ino, Generation: key.Gen},
			SinceNS: l.SinceNs, Files: l.Files, Bytes: l.Bytes, Lost: l.Lost,
		})
	}
	return all, nil
}

// ForgetHeat drops layers that are gone, with all their files, to make room. A layer
// that is still read appears again, empty.
func (h *heat) ForgetHeat(gone ...HeatKey) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set == nil {
		return fmt.Errorf("forget layer heat: %w", notAttached(h.err))
	}
	if len(gone) == 0 {
		return nil
	}
	if err := (heatTable{h.maps}).forget(gone); err != nil {
		return fmt.Errorf("forget layer heat: %w", err)
	}
	return nil
}

// HeatTier returns how heat is recorded, one of HeatTiers. why is the reason for
// HeatNone; it is nil if heat is recorded or switched off.
func (h *heat) HeatTier() (tier string, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set == nil {
		if errors.Is(h.err, errSwitchedOff) {
			return HeatNone, nil
		}
		return HeatNone, notAttached(h.err)
	}
	return h.tier, nil
}

// takeOver removes the pinned programs of an earlier process if heat is switched off.
func (h *heat) takeOver() error {
	if h.mode != HeatOff {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tier, h.err = HeatNone, errSwitchedOff
	return h.pins.removeAll(objectHeat)
}

func (h *heat) parts() []part {
	if h.mode == HeatOff {
		return nil
	}
	return []part{{objectHeat, h.err, h.load}}
}

func (h *heat) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attachment.close()
}

// load attaches the best tier that this kernel allows, or adopts it if it is pinned. A
// pinned tier does not keep a better one out: the process before may have been refused
// the better one for a capability, for its version, or because tracefs was not mounted.
// Both record until the better one has taken over.
func (h *heat) load(types *btf.Cache) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var refused []error
	for _, tier := range h.tiers {
		o, err := heatObject(tier, h.size)
		if err != nil {
			return err
		}
		if err = h.open(o, types); err == nil {
			h.tier, h.err = tier, nil
			reason := "the best there is"
			if len(refused) > 0 {
				reason = "better ones are refused: " + strings.ReplaceAll(errors.Join(refused...).Error(), "\n", "; ")
			}
			h.pins.log.Info("layer heat", "tier", tier, "reason", reason)
			return nil
		}
		refused = append(refused, fmt.Errorf("%s: %w", tier, classify(err)))
	}
	h.tier, h.err = HeatNone, errors.Join(refused...)
	h.pins.warn("layer heat is not known", h.err)
	return nil
}

// open brings up one tier. New programs use the maps of the earlier ones. So at every
// moment one or both record, and no file counts twice.
func (h *heat) open(o *object, types *btf.Cache) error {
	dirs, err := h.pins.outdated(o)
	if err != nil {
		return err
	}
	// The object's own set comes first: it may turn out to be damaged.
	fits := func(name string, m *ebpf.Map) error { return o.spec.Maps[name].Compatible(m) }
	for _, dir := range append([]string{h.pins.dirOf(o)}, dirs...) {
		if o.reuse, err = openMaps(dir, o.maps, fits); err == nil {
			defer closeMaps(o.reuse)
			break
		}
	}
	if h.set, err = h.pins.open(o, types); err != nil {
		return err
	}
	if o.reuse == nil && len(dirs) > 0 {
		h.pins.log.Info("layer heat starts from zero", "reason", "earlier records have another layout")
	}
	if err := (heatTable{h.maps}).reclaim(); err != nil {
		h.pins.log.Warn("cannot free the entries of removed layers", "object", o.name, "reason", err)
	}
	return h.pins.removeOutdated(o)
}

// status lists the programs of the running tier, or those of HeatByPages if none runs.
func (h *heat) status() []ProgramStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	tier := h.tier
	if h.set == nil {
		tier = HeatByPages
	}
	return h.statusOf(objectHeat, heatAttach[tier], "")
}

func (h *heat) count(c *Counters) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	cpus, err := countersOf[heatHeatCounters](h.attachment, objectHeat, heatMapHeatCounts, c)
	for _, n := range cpus {
		c.HeatTouched += n.Touched
		c.HeatUntracked += n.Untracked
		c.HeatFilesLost += n.FilesFull
		c.HeatLayersLost += n.LayersFull
		c.HeatUnreadable += n.Unreadable
	}
	return err
}
