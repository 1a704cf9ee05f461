package bpf

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// TestPinDirectoryOfOthers: what others could have pinned is not taken over, and
// the error names the directory and the way out.
func TestPinDirectoryOfOthers(t *testing.T) {
	mounted := pinDir(t)
	if err := ensureBPFFS(mounted); err != nil {
		t.Fatal(err)
	}
	dir, elsewhere := filepath.Join(mounted, "ebb"), filepath.Join(mounted, "elsewhere")
	mkdir(t, elsewhere)
	defer os.Remove(elsewhere)
	for name, spoil := range map[string]func() error{
		"another owner":    func() error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 65534, 65534)) },
		"group can write":  func() error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o770)) },
		"others can write": func() error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o1777)) },
		"a link":           func() error { return os.Symlink(elsewhere, dir) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(dir)
			p, loading := Load(context.Background(), Options{PinDir: dir})
			if p != nil {
				p.Close()
			}
			_, reporting := ReadReport(context.Background(), dir, 0)
			for what, err := range map[string]error{"Load": loading, "ReadReport": reporting, "Unload": Unload(dir)} {
				if !errors.Is(err, ErrForeignPins) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "kernel.pinDirectory") {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	// Who can read may see what is recorded, and change nothing.
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	load(t, Options{PinDir: dir}).Close()
	if err := Unload(dir); err != nil {
		t.Fatal(err)
	}
}

// TestPinnedByOthers: a set that others could have filled, or programs that are
// not those they should be, are replaced, and stamps from there count as lost.
func TestPinnedByOthers(t *testing.T) {
	object, err := lastUseObject(DefaultMaxLayers)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		spoil func(set string) error
		lost  bool
	}{
		"another owner":      {func(set string) error { return os.Chown(set, 65534, 65534) }, true},
		"others can write":   {func(set string) error { return os.Chmod(filepath.Join(set, "maps"), 0o777) }, true},
		"another program":    {func(set string) error { return swapLinks(filepath.Join(set, "links")) }, false},
		"a link of another":  {func(set string) error { return repin(set, false) }, false},
		"programs of others": {func(set string) error { return repin(set, true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{PinDir: pinDir(t), only: objectLastUse}
			p := load1(t, o)
			r := overlay(t)
			track(t, p, r.key)
			before := now(t)
			r.run(t, "true")
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if err := tt.spoil((&pins{dir: o.PinDir}).dirOf(object)); err != nil {
				t.Fatal(err)
			}
			p = load1(t, o)
			if p.lastuse.adopted {
				t.Error("it was taken over")
			}
			if p.Lost() != tt.lost {
				t.Errorf("Lost() = %v", p.Lost())
			}
			if !tt.lost {
				wantUsedSince(t, p, r.key, before)
			}
			wantSets(t, o.PinDir, 1)
		})
	}
}

func load1(t *testing.T, o Options) *Probes {
	t.Helper()
	p, err := Load(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// swapLinks exchanges two programs that count into the same maps.
func swapLinks(dir string) error {
	exec, exit := filepath.Join(dir, lastuseProgLastuseExec), filepath.Join(dir, lastuseProgLastuseExit)
	return errors.Join(os.Rename(exec, exec+"_"), os.Rename(exit, exec), os.Rename(exec+"_", exit))
}

// repin has links to programs of the right names that count into other maps, and
// the programs, too, if both.
func repin(set string, both bool) error {
	spec, err := loadLastuse()
	if err != nil {
		return err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return err
	}
	defer coll.Close()
	for name := range lastUseAttach {
		at, program := filepath.Join(set, "links", name), filepath.Join(set, "programs", name)
		l, err := link.AttachTracing(link.TracingOptions{Program: coll.Programs[name]})
		if err == nil {
			err = errors.Join(os.Remove(at), l.Pin(at), l.Close())
		}
		if err == nil && both {
			err = errors.Join(os.Remove(program), coll.Programs[name].Pin(program))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
