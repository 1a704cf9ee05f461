package bpf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Sizes of the table of layers.
const (
	DefaultMaxLayers = 16384
	maxMaxLayers     = 1 << 20
)

// Options sets where to pin and how much to hold.
type Options struct {
	// PinDir is a directory on a bpffs, such as /sys/fs/bpf/ebb. A bpffs is
	// mounted if there is none.
	PinDir string
	// MaxLayers is how many layers can be tracked at once; 0 is
	// DefaultMaxLayers.
	MaxLayers uint32
	// NoWriters switches the counting of writers off. Counting costs some tens of
	// nanoseconds for each block that is promised or freed, on every ext4 of the node.
	NoWriters bool
	// Heat sets whether and how closely layer heat is recorded.
	Heat HeatMode
	// Logger receives messages about adoption, replacement and damage; nil is silent.
	Logger *slog.Logger

	// Only tests set these.
	step       func(string) error // see pins.step
	maxWriters uint32             // 0: as writers.bpf.c has it
	absent     func(string) bool  // which filesystems wait for their module
	only       string             // the only object to load
	heatTiers  []string           // those to try, best first; nil: as HeatMode has it
	heatSize   heatSize
	nearBlocks uint32 // 0: as near.go has it; Load adds what CPUs need
}

// Probes holds the handles on the kernel's records. Its methods may be called from several
// goroutines.
type Probes struct {
	concerns
	pins *pins
	only string // the only object to load; "" is all

	mu   sync.Mutex // guards lock, and loading against Close
	lock *os.File   // on the pin directory; nil once closed
}

// Load adopts what is pinned below o.PinDir. It loads objects that are not pinned into the
// kernel, and copies what an earlier version recorded there. An object that cannot be
// loaded is an error only if neither last use nor usage works, now or after CatchUp. See
// Status for what is missing.
func Load(ctx context.Context, o Options) (_ *Probes, err error) {
	o.MaxLayers = cmp.Or(o.MaxLayers, DefaultMaxLayers)
	if o.nearBlocks, err = nearRoom(cmp.Or(o.nearBlocks, nearBlocks)); err != nil {
		return nil, fmt.Errorf("load probes: %w", err)
	}
	if o.MaxLayers > maxMaxLayers {
		return nil, fmt.Errorf("load probes: MaxLayers %d is above %d", o.MaxLayers, maxMaxLayers)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	dir := filepath.Clean(o.PinDir)
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("load probes: PinDir %q is not an absolute path", o.PinDir)
	}
	if o.heatTiers == nil {
		o.heatTiers = heatCandidates(o.Heat)
	}
	at := &pins{dir: dir, log: o.Logger, absent: o.absent, step: o.step}
	p := &Probes{pins: at, only: o.only, concerns: concerns{
		lastuse: lastuse{pins: at, maxLayers: o.MaxLayers},
		usage:   usage{pins: at, nearBlocks: o.nearBlocks, on: map[string]usageSet{}, more: make(chan struct{})},
		writers: writers{pins: at, off: o.NoWriters, room: o.maxWriters, on: map[string]attachment{}},
		heat:    heat{pins: at, mode: o.Heat, tiers: o.heatTiers, size: o.heatSize},
	}}
	if p.lock, err = claim(dir); err != nil {
		return nil, fmt.Errorf("load probes: %w", err)
	}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if err := p.load(ctx); err != nil {
		return nil, fmt.Errorf("load probes: %w", err)
	}
	return p, nil
}

// load brings up the objects. The BTF of the kernel is parsed at most once, and not at all
// if all objects are adopted.
func (p *Probes) load(ctx context.Context) error {
	requestOverlay()
	types := btf.NewCache()
	for _, part := range p.parts() {
		if p.only != "" && p.only != part.name {
			continue
		}
		if err := part.load(types); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if err := p.unusable(); err != nil {
		return err
	}
	return errors.Join(p.writers.takeOver(), p.heat.takeOver())
}

// CatchUp attaches the objects whose kernel module has been loaded since, and reports
// whether there was any. It looks up one file for each type of filesystem that the kernel
// lacks, and does nothing if it lacks none. An object that fails again is not an error of
// CatchUp: Status lists it.
//
// A mounted filesystem has its module loaded. So it is enough to call CatchUp before
// setting watermarks.
func (p *Probes) CatchUp() (came bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lock == nil {
		return false, fmt.Errorf("catch up: %w", ErrNotAttached) // closed
	}
	types := btf.NewCache()
	for _, part := range p.parts() {
		waiting := waits(part.err)
		if waiting == nil || !p.pins.arrived(waiting.module) {
			continue
		}
		if err := part.load(types); err != nil {
			return came, fmt.Errorf("catch up on %s: %w", part.name, err)
		}
		came = true
	}
	return came, nil
}

// Close releases the handles and the lock. The pins are kept, so recording continues.
func (p *Probes) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.concerns.close()
	if p.lock != nil {
		err = errors.Join(err, p.lock.Close())
	}
	p.lock = nil
	return err
}

// Unload ends all recording. It removes what Load pinned below pinDir, of this and earlier
// versions, and the directory if nothing else is in it. A bpffs that Load mounted stays
// mounted. ErrInUse if a process has the probes open.
func Unload(pinDir string) error {
	on, err := onBPFFS(pinDir)
	if err != nil {
		return err
	}
	if !on { // left by a container that had a bpffs mounted there
		return removeEmpty(pinDir)
	}
	lock, err := lockDir(pinDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unload probes: %w", err)
	}
	defer lock.Close()
	for _, name := range []string{objectLastUse, objectUsage + "*", objectWriters, objectWriters + "_*", objectHeat} {
		sets, err := filepath.Glob(filepath.Join(pinDir, name+"-*"))
		for _, dir := range sets {
			// A set is a directory; a pin of that name belongs to another program.
			if is, err := os.Lstat(dir); err == nil && !is.IsDir() {
				continue
			}
			err = errors.Join(err, os.RemoveAll(dir))
		}
		if err != nil {
			return fmt.Errorf("unload probes: %w", err)
		}
	}
	// A bpffs mounted at pinDir itself keeps the directory busy, and has files of its own.
	return removeEmpty(pinDir)
}

// removeEmpty removes dir if it is an empty directory. It is no error if dir does not
// exist, is not empty, is a mount point or cannot be removed from a read-only filesystem.
func removeEmpty(dir string) error {
	err := unix.Rmdir(dir)
	for _, fine := range []error{nil, unix.ENOENT, unix.ENOTDIR, unix.EBUSY, unix.ENOTEMPTY, unix.EROFS} {
		if errors.Is(err, fine) {
			return nil
		}
	}
	return fmt.Errorf("unload probes: remove %s: %w", dir, err)
}
