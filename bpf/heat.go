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

// heat is which files of a layer its containers have touched: statistics, on which no
// decision rests. A touch counts if the process has an overlayfs as its root and the
// file lies on a lower layer of that overlay. Programs find the layer themselves and
// enter its root directory by device, inode number and generation, so a container's
// first reads count although nobody has heard of the image yet. Each file counts once:
// one word of a fixed table, with its layer's slot and 47 bits of a hash of device,
// inode number and generation; two files can be taken for one with a probability of
// about 1 in 10^13 for each further file. The table takes 131072 files of 4096 layers.
// Nothing is evicted; what finds no room is counted as lost. A layer below the 255th
// is not looked at; runtimes stop at 127.
//
// Programs take slots from a stock that only Load and ForgetHeat fill, after every
// program that may hold a slot has ended. A later set of programs goes on with the maps
// of the one before.
type heat struct {
	pins  *pins
	mode  HeatMode
	tiers []string // to try, best first
	size  heatSize

	mu sync.Mutex // guards all below
	attachment
	tier string // one of HeatTiers
}

// HeatKey is the root directory of a layer.
type HeatKey struct {
	// Filesystem is the superblock's s_dev (major<<20 | minor), or the
	// ErofsFilesystem of its UUID.
	Filesystem uint64
	Inode      uint64
	// Generation tells a directory from the one that had its inode number
	// before. It is the kernel's i_generation.
	Generation uint64
}

func (k HeatKey) kernel() heatHeatKey {
	return heatHeatKey{Fs: k.Filesystem, Ino: k.Inode, Gen: k.Generation}
}

// ErofsFilesystem is how an erofs image is known, wherever it is mounted.
func ErofsFilesystem(uuid [16]byte) uint64 {
	low, high := binary.LittleEndian.Uint64(uuid[:8]), binary.LittleEndian.Uint64(uuid[8:])
	return low ^ high | 1<<63
}

// LayerHeat is what containers have read of a layer, since the first one of them
// touched a file of its image while the programs ran.
type LayerHeat struct {
	HeatKey
	SinceNS uint64 // CLOCK_BOOTTIME
	Files   uint64 // distinct files touched
	Bytes   uint64 // their sizes in whole blocks, however much of each was read
	// Lost counts touches of further files that found no room to be remembered:
	// if it is not 0, Files and Bytes are too low.
	Lost uint64
}

// Heat returns every layer that was part of the root of a process which touched a
// file of an image for the first time. Of others nobody knows what was read.
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

// ForgetHeat makes room by dropping layers that are gone, with all their files.
// One that is still read appears again, with nothing in it.
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

// HeatTier is how heat is known, one of HeatTiers; why says why not at all, and
// is nil if it is known or nobody wants to.
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

// takeOver ends what an earlier process began, if heat is switched off.
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

// load attaches the best tier that this kernel allows, or goes on with it if it
// is pinned. One that is pinned does not keep a better one out, which was refused
// to the process before: for a capability, for its version, or because tracefs was
// not mounted. Both record until the better one has taken over.
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

// open brings up one tier. New programs work on the maps of those before
// them, so that at every moment one or both record, and no file counts twice.
func (h *heat) open(o *object, types *btf.Cache) error {
	dirs, err := h.pins.outdated(o)
	if err != nil {
		return err
	}
	// Its own set may turn out to be damaged.
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

// status lists the programs of the tier that runs, or of the last resort.
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
