package bpf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// bpffs reserves dots in names, hence the dashes.
const (
	suffixNew = "-new" // being filled; never adopted
	suffixOld = "-old" // damaged, moved aside; may still hold stamps
)

// set is an object in the kernel: handles on its maps, links and programs. The
// links are kept only to stay open: a link that is garbage-collected detaches.
type set struct {
	maps     map[string]*ebpf.Map
	links    map[string]link.Link
	programs map[string]*ebpf.Program // those that are attached
	near     *ebpf.Program            // attached only while it is needed; or nil
	adopted  bool
}

func newSet() *set {
	return &set{maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}, programs: map[string]*ebpf.Program{}}
}

func (s *set) close() error {
	var errs []error
	errs = append(errs, closeEach("link", s.links), closeEach("map", s.maps), closeEach("program", s.programs))
	if s.near != nil {
		errs = append(errs, s.near.Close())
	}
	return errors.Join(errs...)
}

func closeEach[C io.Closer](kind string, all map[string]C) error {
	var errs []error
	for name, one := range all {
		if err := one.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close %s %s: %w", kind, name, err))
		}
	}
	return errors.Join(errs...)
}

// pins is the directory below which sets are pinned. The caller holds its lock.
type pins struct {
	dir string
	log *slog.Logger

	// absent reports whether a filesystem has to wait for its module. Only tests
	// set it.
	absent func(string) bool

	// step is called before each change of the directory; an error simulates a
	// crash at that point. Only tests set it.
	step func(string) error
}

func (p *pins) before(what, path string) error {
	if p.step == nil {
		return nil
	}
	return p.step(what + " " + path)
}

// dirOf returns the directory in which an object's set is pinned.
func (p *pins) dirOf(o *object) string {
	return filepath.Join(p.dir, o.name+"-"+o.layout())
}

// open adopts o's pinned set or makes a new one. A damaged set is moved aside,
// not removed: its stamps may still be readable.
func (p *pins) open(o *object, types *btf.Cache) (*set, error) {
	dir := p.dirOf(o)
	_, err := os.Lstat(dir)
	if err == nil {
		s, err := p.adopt(o)
		if err == nil {
			p.log.Info("probes adopted", "object", o.name, "dir", dir)
			return s, nil
		}
		p.log.Warn("pinned probes are damaged", "object", o.name, "dir", dir, "reason", err)
		if err := p.discard(o); err != nil {
			return nil, fmt.Errorf("set damaged pins aside: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := o.present(types, p.absent); err != nil {
		return nil, err
	}
	s, err := p.create(o, types)
	if err != nil {
		return nil, err
	}
	p.log.Info("probes attached", "object", o.name, "dir", dir)
	return s, nil
}

// warn logs that something is not recorded. The level is info if the filesystem's
// module is not loaded, because then nothing is missed.
func (p *pins) warn(what string, why error, about ...any) {
	level := slog.LevelWarn
	if waits(why) != nil {
		level = slog.LevelInfo
	}
	p.log.Log(context.Background(), level, what, append(about, "reason", why)...)
}

// adopt opens the pinned set of o. An incomplete set is an error.
func (p *pins) adopt(o *object) (_ *set, err error) {
	dir := p.dirOf(o)
	if err := trustedSet(dir); err != nil {
		return nil, err
	}
	s := newSet()
	s.adopted = true
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for _, name := range o.maps {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "maps", name), nil)
		if err != nil {
			return nil, fmt.Errorf("open map %s: %w", name, err)
		}
		s.maps[name] = m
		if err := o.spec.Maps[name].Compatible(m); err != nil {
			return nil, fmt.Errorf("map %s: %w", name, err)
		}
	}
	for name := range o.attach {
		l, err := link.LoadPinnedLink(filepath.Join(dir, "links", name), nil)
		if errors.Is(err, fs.ErrNotExist) && (name == o.far || name == o.near) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open link %s: %w", name, err)
		}
		s.links[name] = l
		if s.programs[name], err = adoptProgram(dir, name, l); err != nil {
			return nil, err
		}
	}
	if err := s.adoptNear(o, dir); err != nil {
		return nil, err
	}
	if o.base != nil {
		return s, shares(s.programs, o.base.maps, false)
	}
	return s, shares(s.programs, s.maps, true)
}

// adoptProgram opens a pinned program. If l is not nil, it must be the program's
// link.
func adoptProgram(dir, name string, l link.Link) (*ebpf.Program, error) {
	program, err := ebpf.LoadPinnedProgram(filepath.Join(dir, "programs", name), nil)
	if err != nil {
		return nil, fmt.Errorf("open program %s: %w", name, err)
	}
	if err := own(program, l, name); err != nil {
		return nil, errors.Join(fmt.Errorf("look at program %s: %w", name, err), program.Close())
	}
	return program, nil
}

// adoptNear opens the near program if it is not attached. Then the far program
// must be attached.
func (s *set) adoptNear(o *object, dir string) (err error) {
	if o.near == "" || s.links[o.near] != nil {
		return nil
	}
	if s.links[o.far] == nil {
		return fmt.Errorf("open link %s: %w", o.far, fs.ErrNotExist)
	}
	s.near, err = adoptProgram(dir, o.near, nil)
	return err
}

// create loads o, attaches it and pins it. Recording starts before the first
// pin is made.
func (p *pins) create(o *object, types *btf.Cache) (_ *set, err error) {
	coll, err := o.load(types)
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	s, failed := o.attachAll(coll)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if len(failed) > 0 {
		return nil, failed[0]
	}
	if err := p.commit(o, s); err != nil {
		return nil, fmt.Errorf("pin: %w", err)
	}
	return s, nil
}

// commit pins a set under a name that is never adopted, then renames it.
func (p *pins) commit(o *object, s *set) error {
	fresh := p.dirOf(o) + suffixNew
	if err := p.remove(fresh); err != nil {
		return err
	}
	for _, dir := range []string{"maps", "links", "programs"} {
		if err := p.before("mkdir", dir); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(fresh, dir), 0o700); err != nil {
			return err
		}
	}
	programs := maps.Clone(s.programs)
	if s.near != nil {
		programs[o.near] = s.near
	}
	if err := pinEach(p, filepath.Join(fresh, "maps"), s.maps); err != nil {
		return err
	}
	if err := pinEach(p, filepath.Join(fresh, "links"), s.links); err != nil {
		return err
	}
	if err := pinEach(p, filepath.Join(fresh, "programs"), programs); err != nil {
		return err
	}
	return p.rename(fresh, p.dirOf(o))
}

func pinEach[P interface{ Pin(string) error }](p *pins, dir string, all map[string]P) error {
	for name, one := range all {
		if err := p.before("pin", name); err != nil {
			return err
		}
		if err := one.Pin(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// discard renames a damaged set, so that its name is free for its successor. A
// set with a base has no maps of its own to read, and its programs count into the
// maps of their successors, so discard removes it.
func (p *pins) discard(o *object) error {
	if o.base != nil {
		return p.remove(p.dirOf(o))
	}
	for n := 0; ; n++ {
		aside := fmt.Sprintf("%s%s%d", p.dirOf(o), suffixOld, n)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return p.rename(p.dirOf(o), aside)
		}
	}
}

// outdated lists the directories of earlier sets of o. It removes half-made ones.
func (p *pins) outdated(o *object) ([]string, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", p.dir, err)
	}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(p.dir, e.Name())
		if !e.IsDir() || !strings.HasPrefix(e.Name(), o.name+"-") || dir == p.dirOf(o) {
			continue
		}
		if strings.HasSuffix(dir, suffixNew) {
			if err := p.remove(dir); err != nil {
				return nil, err
			}
			continue
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// removeOutdated removes the earlier sets of o, which o has replaced.
func (p *pins) removeOutdated(o *object) error {
	dirs, err := p.outdated(o)
	p.removeSets(dirs)
	return err
}

// removeAll removes every set of the object called name.
func (p *pins) removeAll(name string) error {
	dirs, err := filepath.Glob(filepath.Join(p.dir, name+"-*"))
	if err != nil {
		return fmt.Errorf("find earlier sets of %s: %w", name, err)
	}
	p.removeSets(dirs)
	return nil
}

// removeSets removes sets. A set that cannot be removed costs some memory, and
// the next Load tries again.
func (p *pins) removeSets(dirs []string) {
	for _, dir := range dirs {
		if err := p.remove(dir); err != nil {
			p.log.Warn("earlier probes could not be removed", "dir", dir, "reason", err)
			continue
		}
		p.log.Info("earlier probes removed", "dir", dir)
	}
}

func (p *pins) rename(from, to string) error {
	if err := p.before("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (p *pins) remove(dir string) error {
	if err := p.before("remove", dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
