package bpf

import (
	"fmt"
	"maps"
	"slices"
)

// Track asks for the uses of a layer to be stamped. If the layer was used
// before, while nobody tracked it, that use is its first stamp. Tracking a
// layer twice is the same as once; ErrFull if MaxLayers are tracked.
//
// A directory that was removed and made anew can have the same Key: Untrack it
// in between, or the old one's stamp is taken for the new one's.
func (p *Probes) Track(k Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.table == nil {
		return p.noLastUse("track layer")
	}
	if err := p.table.track(k, 0); err != nil {
		return fmt.Errorf("track layer %d:%d: %w", k.Dev, k.Ino, err)
	}
	return nil
}

// Untrack forgets a layer and everything known about its use.
func (p *Probes) Untrack(k Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.table == nil {
		return p.noLastUse("untrack layer")
	}
	if err := p.table.untrack(k); err != nil {
		return fmt.Errorf("untrack layer %d:%d: %w", k.Dev, k.Ino, err)
	}
	return nil
}

// LastUse returns when a tracked layer was last used, by CLOCK_BOOTTIME; false
// if it was not, or is not tracked.
func (p *Probes) LastUse(k Key) (bootNS uint64, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.table == nil {
		return 0, false, p.noLastUse("last use")
	}
	last, err := p.table.lastUse(k)
	if err != nil {
		return 0, false, fmt.Errorf("last use of layer %d:%d: %w", k.Dev, k.Ino, err)
	}
	return last, last != 0, nil
}

// LastUses returns LastUse of every tracked layer that was used, with two
// system calls in all.
func (p *Probes) LastUses() (map[Key]uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.table == nil {
		return nil, p.noLastUse("last uses")
	}
	uses, err := p.table.lastUses()
	if err != nil {
		return nil, fmt.Errorf("last uses: %w", err)
	}
	return uses, nil
}

// Tracked returns the tracked layers, those of the process before included.
func (p *Probes) Tracked() []Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.table == nil {
		return nil
	}
	return slices.Collect(maps.Keys(p.table.slots))
}

// Purge makes room among the noted uses of layers that were never tracked, by
// forgetting those from before a moment of CLOCK_BOOTTIME.
func (p *Probes) Purge(before uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.table == nil {
		return p.noLastUse("purge")
	}
	if err := p.table.purge(before); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}

// Lost tells whether stamps of an earlier run were there and could not be
// read. Then no stamp is not proof of no use: every image counts as recent.
func (p *Probes) Lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *Probes) noLastUse(what string) error {
	return fmt.Errorf("%s: %w", what, notAttached(p.lastuseErr))
}
