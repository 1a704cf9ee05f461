package bpf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Sizes of the table of layers.
const (
	DefaultMaxLayers = 16384
	maxMaxLayers     = 1 << 20
)

// Options says where to pin and how much to hold.
type Options struct {
	// PinDir is a directory on a bpffs, such as /sys/fs/bpf/ebb. A bpffs is
	// mounted if there is none.
	PinDir string
	// MaxLayers is how many layers can be tracked at once; 0 is
	// DefaultMaxLayers.
	MaxLayers uint32
	// NoWriters leaves the counting of writers out. It costs each block that is
	// promised or freed some tens of nanoseconds, on every ext4 of the node.
	NoWriters bool
	// Heat says whether, and how closely, layer heat is watched.
	Heat HeatMode
	// Logger hears about adoption, replacement and damage; nil is silent.
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

// Probes is the kernel's record and the handles on it. Its methods may be
// called from several goroutines.
type Probes struct {
	lock    *os.File // on the pin directory
	pins    *pins
	options Options
	log     *slog.Logger
	absent  func(string) bool // see Options

	mu                     sync.Mutex // guards all below
	lastuse, writers       *set       // nil if not attached
	lastuseErr, writersErr error
	usage, writersOn       map[string]usageSet // by type of filesystem
	heat                   *set
	heatErr                error
	heatTier               string // one of HeatTiers
	table                  *layerTable
	lost                   bool
	more                   chan struct{} // closed when CatchUp has attached something
}

// Load adopts what is pinned below o.PinDir, or puts the programs into the
// kernel and carries over what an earlier version recorded there. It fails only
// if neither last use nor usage can be had, now or by CatchUp; see Status for
// what is missing.
func Load(ctx context.Context, o Options) (_ *Probes, err error) {
	if o.MaxLayers == 0 {
		o.MaxLayers = DefaultMaxLayers
	}
	if o.nearBlocks == 0 {
		o.nearBlocks = nearBlocks
	}
	if o.nearBlocks, err = nearRoom(o.nearBlocks); err != nil {
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
	p := &Probes{
		pins: &pins{dir: dir, step: o.step}, options: o, log: o.Logger, absent: o.absent,
		usage: map[string]usageSet{}, writersOn: map[string]usageSet{}, more: make(chan struct{}),
	}
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

// load brings up the objects. The BTF of the kernel is parsed at most once,
// and not at all if all are adopted.
func (p *Probes) load(ctx context.Context) error {
	requestOverlay()
	types := btf.NewCache()
	for _, part := range p.parts() {
		if err := part.load(types); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if err := p.hopeless(); err != nil {
		return err
	}
	return p.takeOver()
}

// takeOver goes on with what an earlier process began, or ends what this one is
// not to do.
func (p *Probes) takeOver() error {
	var errs []error
	if p.options.NoWriters {
		errs = append(errs, p.dropWriters())
	} else {
		errs = append(errs, p.inheritWriters())
	}
	if p.options.Heat == HeatOff {
		errs = append(errs, p.dropHeat())
	}
	return errors.Join(errs...)
}

// part is what loads, fails, and waits for its module, by itself.
type part struct {
	name string
	err  error // why it is not attached; nil if it is, or was not tried yet
	load func(*btf.Cache) error
}

// parts lists them, what others depend on first.
func (p *Probes) parts() []part {
	all := []part{{objectLastUse, p.lastuseErr, p.loadLastUse}}
	for _, fsType := range fsTypes {
		load := func(types *btf.Cache) error { return p.loadUsage(types, fsType) }
		all = append(all, part{objectUsage + fsType, p.usage[fsType].err, load})
	}
	if !p.options.NoWriters {
		all = append(all, part{objectWriters, p.writersErr, p.loadWriters})
		for _, fsType := range writersTypes[1:] {
			load := func(types *btf.Cache) error { return p.loadWritersOn(types, fsType) }
			all = append(all, part{writersName(fsType), p.writersOn[fsType].err, load})
		}
	}
	if p.options.Heat != HeatOff {
		all = append(all, part{objectHeat, p.heatErr, p.loadHeat})
	}
	if p.options.only != "" {
		all = slices.DeleteFunc(all, func(one part) bool { return one.name != p.options.only })
	}
	return all
}

// hopeless is why neither last use nor usage can be had, now or later. Waiting
// for a module helps nobody who may not load programs.
func (p *Probes) hopeless() error {
	lastuse, usage := p.lastuseErr, usageError(p.usage)
	if lastuse == nil || usage == nil {
		return nil
	}
	err := fmt.Errorf("last use: %w; usage: %w", lastuse, usage)
	var absent *absentError
	if errors.As(err, &absent) && !errors.Is(err, ErrNotPermitted) {
		return nil
	}
	return err
}

func (p *Probes) loadLastUse(types *btf.Cache) error {
	o, err := lastUseObject(p.options.MaxLayers)
	if err != nil {
		return err
	}
	if p.lastuse, err = p.open(o, types); err == nil {
		err = p.inherit(o)
	}
	if p.lastuseErr = classify(err); err != nil {
		p.log.Warn("last use is not recorded", "reason", p.lastuseErr)
	}
	return nil
}

// loadUsage brings up the lines of one type of filesystem.
func (p *Probes) loadUsage(types *btf.Cache, fsType string) error {
	o, err := usageObject(fsType, p.options.nearBlocks)
	if err != nil {
		return err
	}
	s, err := p.open(o, types)
	if err == nil {
		err = p.resetLines(o, s)
	}
	if err != nil {
		err = classify(err)
		p.say("usage is not watched", err, "type", fsType)
		if s != nil {
			err = errors.Join(err, s.close())
		}
		s = nil
	}
	p.usage[fsType] = usageSet{s, err, newApproach(s, p.options.nearBlocks)}
	return nil
}

// say warns of what a node may miss. A filesystem that is not there is no loss.
func (p *Probes) say(what string, why error, about ...any) {
	var absent *absentError
	level := slog.LevelWarn
	if errors.As(why, &absent) {
		level = slog.LevelInfo
	}
	p.log.Log(context.Background(), level, what, append(about, "reason", why)...)
}

// open adopts o's pinned set or makes a new one. A set that is damaged is set
// aside, not removed: its stamps may still be readable.
func (p *Probes) open(o *object, types *btf.Cache) (*set, error) {
	dir := p.pins.dirOf(o)
	_, err := os.Lstat(dir)
	if err == nil {
		s, err := p.pins.adopt(o)
		if err == nil {
			p.log.Info("probes adopted", "object", o.name, "dir", dir)
			return s, nil
		}
		p.log.Warn("pinned probes are damaged", "object", o.name, "dir", dir, "reason", err)
		if err := p.pins.discard(o); err != nil {
			return nil, fmt.Errorf("set damaged pins aside: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := p.present(o, types); err != nil {
		return nil, err
	}
	s, err := p.pins.create(o, types)
	if err != nil {
		return nil, err
	}
	p.log.Info("probes attached", "object", o.name, "dir", dir)
	return s, nil
}

// inherit builds the table of layers, from this set and from earlier ones.
func (p *Probes) inherit(o *object) error {
	table, damaged, err := newLayerTable(p.lastuse)
	if err != nil {
		return err
	}
	p.table = table
	if damaged > 0 {
		p.lost = true
		p.log.Warn("layers with impossible slots were dropped", "count", damaged)
	}
	dirs, err := p.pins.outdated(o)
	if err != nil {
		return err
	}
	if len(dirs) > 0 {
		// A run of the earlier programs that began before these were attached may
		// be about to write the stamp that only it knows of.
		if err := waitForPrograms(); err != nil {
			p.lost = true
			p.log.Warn("earlier programs may still be running", "reason", err)
		}
	}
	for _, dir := range dirs {
		if err := carryOver(table, dir); err != nil {
			p.lost = true
			p.log.Warn("earlier stamps could not be read", "dir", dir, "reason", err)
		}
	}
	p.removeEarlier(p.pins, dirs)
	return nil
}

// resetLines forgets the lines of the process before, whose watches would keep
// their room for ever if their filesystems are gone; and its sets.
func (p *Probes) resetLines(o *object, s *set) error {
	for _, name := range []string{mapWatches, mapCounted, mapGivenBack} {
		m, ok := s.maps[name]
		if !ok {
			continue
		}
		var dev uint64
		for m.NextKey(nil, &dev) == nil {
			if err := m.Delete(dev); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("clear line: %w", err)
			}
		}
	}
	dirs, err := p.pins.outdated(o)
	if err != nil {
		return err
	}
	p.removeEarlier(p.pins, dirs)
	return nil
}

// removeEarlier unpins sets that have a successor. One that stays behind costs
// some memory and is tried again by the next Load.
func (p *Probes) removeEarlier(pins *pins, dirs []string) {
	for _, dir := range dirs {
		if err := pins.remove(dir); err != nil {
			p.log.Warn("earlier probes could not be removed", "dir", dir, "reason", err)
			continue
		}
		p.log.Info("earlier probes removed", "dir", dir)
	}
}

// Close releases the handles and the lock. The pins stay: recording goes on.
func (p *Probes) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	sets := []*set{p.lastuse, p.writers, p.heat}
	for _, fsType := range fsTypes {
		sets = append(sets, p.usage[fsType].set, p.writersOn[fsType].set)
		errs = append(errs, p.usage[fsType].closely.close())
	}
	for _, s := range sets {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	if p.lock != nil {
		errs = append(errs, p.lock.Close())
	}
	p.lastuse, p.usage, p.writers, p.writersOn, p.heat, p.table, p.lock = nil, nil, nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// Unload ends all recording: it removes what Load pinned below pinDir, of this
// and earlier versions, and the directory if nothing else is in it. A bpffs that
// Load mounted stays mounted. ErrInUse if a process has the probes open.
func Unload(pinDir string) error {
	if on, err := onBPFFS(pinDir); err != nil || !on {
		return err
	}
	lock, err := lockDir(pinDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unload probes: %w", err)
	}
	defer lock.Close()
	var sets []string
	for _, name := range []string{objectLastUse, objectUsage + "*", objectWriters, objectWriters + "_*", objectHeat} {
		found, err := filepath.Glob(filepath.Join(pinDir, name+"-*"))
		if err != nil {
			return fmt.Errorf("unload probes: %w", err)
		}
		sets = append(sets, found...)
	}
	for _, dir := range sets {
		// A set is a directory; a pin of that name is somebody else's.
		if is, err := os.Lstat(dir); err == nil && !is.IsDir() {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("unload probes: %w", err)
		}
	}
	// A bpffs mounted at pinDir itself keeps it busy, and has files of its own.
	err = unix.Rmdir(pinDir)
	if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("unload probes: remove %s: %w", pinDir, err)
	}
	return nil
}
