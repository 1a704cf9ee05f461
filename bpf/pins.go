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

// set is an object in the kernel: handles on its maps and links. The links are
// kept although nobody asks them anything: collected as garbage, they detach.
type set struct {
	maps    map[string]*ebpf.Map
	links   map[string]link.Link
	near    *ebpf.Program // what is attached only while it is needed; or nil
	adopted bool
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
	s := &set{maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}, adopted: true}
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
	}
	if o.base != nil {
		return s, s.shares(o.base)
	}
	return s, s.adoptNear(o, dir)
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
	if s.near, err = ebpf.LoadPinnedProgram(filepath.Join(dir, "programs", o.near), nil); err != nil {
		return fmt.Errorf("open program %s: %w", o.near, err)
	}
	return nil
}

// shares checks that the programs count into the maps of base, which could have
// been made anew since.
func (s *set) shares(base *set) error {
	for name, l := range s.links {
		ours, err := uses(l, base.maps[writersMapWriters])
		if err != nil {
			return fmt.Errorf("look at link %s: %w", name, err)
		}
		if ours {
			return nil
		}
	}
	return fmt.Errorf("programs count into maps that are gone: %w", errForeign)
}

// create loads o, attaches it and pins it. Recording starts before the first
// pin is made.
func (p *pins) create(o *object, types *btf.Cache) (_ *set, err error) {
	coll, err := o.load(types)
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	s := &set{maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for name, tracepoint := range o.attachIn(coll) {
		l, err := attach(coll.Programs[name], tracepoint)
		if err != nil {
			return nil, fmt.Errorf("attach %s to %s: %w", name, tracepoint, err)
		}
		s.links[name] = l
	}
	if coll.Programs[o.far] != nil {
		s.near = coll.DetachProgram(o.near)
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
		if err := p.before("pin", name); err != nil {
			return err
		}
		if err := m.Pin(filepath.Join(fresh, "maps", name)); err != nil {
			return err
		}
	}
	for name, l := range s.links {
		if err := p.before("pin", name); err != nil {
			return err
		}
		if err := l.Pin(filepath.Join(fresh, "links", name)); err != nil {
			return err
		}
	}
	if s.near != nil {
		if err := p.before("pin", o.near); err != nil {
			return err
		}
		if err := s.near.Pin(filepath.Join(fresh, "programs", o.near)); err != nil {
			return err
		}
	}
	return p.rename(fresh, p.dirOf(o))
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
