package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// bpffs reserves dots in names, hence the dashes.
const (
	suffixNew = "-new" // being filled; worth nothing
	suffixOld = "-old" // damaged, moved aside; may still hold stamps
)

// set is an object in the kernel: handles on its maps, links and programs. The
// links are kept although nobody asks them anything: collected as garbage, they
// detach.
type set struct {
	maps     map[string]*ebpf.Map
	links    map[string]link.Link
	programs map[string]*ebpf.Program // those that are attached
	near     *ebpf.Program            // what is attached only while it is needed; or nil
	adopted  bool
}

func newSet() *set {
	return &set{maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}, programs: map[string]*ebpf.Program{}}
}

func (s *set) close() error {
	var errs []error
	for name, l := range s.links {
		if err := l.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close link %s: %w", name, err))
		}
	}
	for name, m := range s.maps {
		if err := m.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close map %s: %w", name, err))
		}
	}
	for name, program := range s.programs {
		if err := program.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close program %s: %w", name, err))
		}
	}
	if s.near != nil {
		errs = append(errs, s.near.Close())
	}
	return errors.Join(errs...)
}

// pins is the directory below which sets are pinned. The caller holds its lock.
type pins struct {
	dir string

	// step is called before each change of the directory; an error stands for
	// a crash at that point. Only tests set it.
	step func(string) error
}

func (p *pins) before(what, path string) error {
	if p.step == nil {
		return nil
	}
	return p.step(what + " " + path)
}

// dirOf is where an object's set is pinned.
func (p *pins) dirOf(o *object) string {
	return filepath.Join(p.dir, o.name+"-"+o.layout())
}

// adopt opens the pinned set of o. It is all there or it is refused.
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

// adoptProgram opens a pinned program. A link that is not nil has to be its own.
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

// adoptNear opens what is attached only when needed. Of the two programs either
// the near one is attached, or the far one is and the near one can be.
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
	s := newSet()
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if coll.Programs[o.far] != nil {
		s.near = coll.DetachProgram(o.near)
	}
	for name, tracepoint := range o.attachIn(coll) {
		l, err := attach(coll.Programs[name], tracepoint)
		if err != nil {
			return nil, fmt.Errorf("attach %s to %s: %w", name, tracepoint, err)
		}
		s.links[name], s.programs[name] = l, coll.DetachProgram(name)
	}
	for _, name := range o.maps {
		s.maps[name] = coll.DetachMap(name)
	}
	if err := p.commit(o, s); err != nil {
		return nil, fmt.Errorf("pin: %w", err)
	}
	return s, nil
}

// attach attaches a program. A tracing program knows itself where it belongs.
func attach(program *ebpf.Program, at string) (link.Link, error) {
	if program.Type() == ebpf.Kprobe {
		return link.Kprobe(at, program, nil)
	}
	return link.AttachTracing(link.TracingOptions{Program: program})
}

// commit pins a set under a name that counts for nothing, then renames it.
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
	for name, m := range s.maps {
		if err := p.pin(m, fresh, "maps", name); err != nil {
			return err
		}
	}
	for name, l := range s.links {
		if err := p.pin(l, fresh, "links", name); err != nil {
			return err
		}
	}
	for name, program := range s.programs {
		if err := p.pin(program, fresh, "programs", name); err != nil {
			return err
		}
	}
	if s.near != nil {
		if err := p.pin(s.near, fresh, "programs", o.near); err != nil {
			return err
		}
	}
	return p.rename(fresh, p.dirOf(o))
}

func (p *pins) pin(what interface{ Pin(string) error }, set, kind, name string) error {
	if err := p.before("pin", name); err != nil {
		return err
	}
	return what.Pin(filepath.Join(set, kind, name))
}

// discard takes a damaged set out of the way. One without maps of its own has
// nothing to read, and its programs count where their successors will.
func (p *pins) discard(o *object) error {
	if o.base != nil {
		return p.remove(p.dirOf(o))
	}
	return p.setAside(o)
}

// setAside gives a damaged set a name that its successor does not need.
func (p *pins) setAside(o *object) error {
	for n := 0; ; n++ {
		aside := fmt.Sprintf("%s%s%d", p.dirOf(o), suffixOld, n)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return p.rename(p.dirOf(o), aside)
		}
	}
}

// outdated lists what is left of earlier sets of o, half-made ones not counted.
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
