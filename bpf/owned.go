package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// ErrForeignPins: another user could have made the pins. On a bpffs that is
// mounted by its defaults every user may make directories (mode 1777,
// kernel/bpf/inode.c).
var ErrForeignPins = errors.New("pins are not trusted")

// othersMayWrite are the permission bits that let the group or other users change
// a directory.
const othersMayWrite = 0o022

// trusted returns an ErrForeignPins unless dir is a directory that belongs to
// root or to the user of this process, and only its owner may write to it. Links
// are not followed.
func trusted(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	why := distrust(info)
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s %s, so others can have pinned programs and maps there: look at what is in it, remove it (rm -r %s), or set kernel.pinDirectory to another one",
		ErrForeignPins, dir, why, dir)
}

// distrust returns what is wrong with a directory; "" if nothing is.
func distrust(info fs.FileInfo) string {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	switch {
	case !info.IsDir():
		return "is no directory"
	case owner != 0 && owner != os.Geteuid():
		return fmt.Sprintf("belongs to user %d", owner)
	case info.Mode().Perm()&othersMayWrite != 0:
		return fmt.Sprintf("can be written by others (mode %04o)", info.Mode().Perm())
	}
	return ""
}

// trustedSet checks the directory of a set and its subdirectories as trusted
// does. Subdirectories may be missing.
func trustedSet(dir string) error {
	for _, part := range []string{"", "maps", "links", "programs"} {
		err := trusted(filepath.Join(dir, part))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// programNameLen is how many bytes of a program's name the kernel keeps
// (BPF_OBJ_NAME_LEN). The full name is in the program's types, if it has any.
const programNameLen = 15

// own checks that a pinned program has the given name and is the one behind its
// pinned link l, unless l is nil. Unlike opening a program by its id, that needs
// no CAP_SYS_ADMIN.
func own(program *ebpf.Program, l link.Link, name string) error {
	about, err := program.Info()
	if err != nil {
		return err
	}
	if about.Name != name && about.Name != name[:min(len(name), programNameLen)] {
		return fmt.Errorf("program %q is pinned there: %w", about.Name, errForeign)
	}
	if l == nil {
		return nil
	}
	info, err := l.Info()
	if err != nil {
		return err
	}
	if id, ok := about.ID(); ok && id != info.Program {
		return fmt.Errorf("its link is of another program: %w", errForeign)
	}
	return nil
}

// uses reports whether a program has one of these maps.
func uses(program *ebpf.Program, of map[string]*ebpf.Map) (bool, error) {
	about, err := program.Info()
	if err != nil {
		return false, err
	}
	used, _ := about.MapIDs()
	for _, m := range of {
		info, err := m.Info()
		if err != nil {
			return false, err
		}
		if id, ok := info.ID(); ok && slices.Contains(used, id) {
			return true, nil
		}
	}
	return false, nil
}

// shares checks that programs count into these maps, which could have been
// created again since. If all is set, each program must do so, otherwise at least
// one.
func shares(programs map[string]*ebpf.Program, of map[string]*ebpf.Map, all bool) error {
	some := false
	for name, program := range programs {
		ours, err := uses(program, of)
		if err != nil {
			return fmt.Errorf("look at program %s: %w", name, err)
		}
		if !ours && all {
			return fmt.Errorf("program %s counts into maps that are not pinned beside it: %w", name, errForeign)
		}
		some = some || ours
	}
	if !some {
		return fmt.Errorf("programs count into maps that are gone: %w", errForeign)
	}
	return nil
}
