package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
)

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
func (p *Probes) Heat() ([]LayerHeat, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heat == nil {
		return nil, fmt.Errorf("layer heat: %w", notAttached(p.heatErr))
	}
	read, err := heatTable{p.heat.maps}.read()
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
func (p *Probes) ForgetHeat(gone ...HeatKey) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heat == nil {
		return fmt.Errorf("forget layer heat: %w", notAttached(p.heatErr))
	}
	if len(gone) == 0 {
		return nil
	}
	keys := make([]heatHeatKey, len(gone))
	for i, k := range gone {
		keys[i] = k.kernel()
	}
	if err := (heatTable{p.heat.maps}).forget(keys); err != nil {
		return fmt.Errorf("forget layer heat: %w", err)
	}
	return nil
}

// HeatTier is how heat is known, one of HeatTiers; why says why not at all, and
// is nil if it is known or nobody wants to.
func (p *Probes) HeatTier() (tier string, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heat == nil {
		if errors.Is(p.heatErr, errHeatOff) {
			return HeatNone, nil
		}
		return HeatNone, notAttached(p.heatErr)
	}
	return p.heatTier, nil
}

// heatStatus lists the programs of the tier that runs, or of the last resort.
func (p *Probes) heatStatus() []ProgramStatus {
	tier := p.heatTier
	if p.heat == nil {
		tier = HeatByPages
	}
	return statusOf(objectHeat, heatAttach[tier], p.heat, p.heatErr, "")
}

func (p *Probes) countHeat(c *Counters) error {
	var cpus []heatHeatCounters
	if err := p.heat.maps[heatMapHeatCounts].Lookup(uint32(0), &cpus); err != nil {
		return fmt.Errorf("read counters of layer heat: %w", err)
	}
	for _, n := range cpus {
		c.HeatTouched += n.Touched
		c.HeatStrange += n.Strange
		c.HeatFilesLost += n.FilesFull
		c.HeatLayersLost += n.LayersFull
		c.HeatUnreadable += n.Unreadable
	}
	return nil
}
