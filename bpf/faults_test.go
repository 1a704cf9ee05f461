package bpf

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// loadDeprived loads in a process that lacks something, and returns its output
// and its exit code.
func loadDeprived(t *testing.T, pinDir string, env ...string) (output string, code int) {
	t.Helper()
	cmd := helperCommand("load", pinDir, env...)
	cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestEachCapability: CAP_SYS_ADMIN alone is enough. CAP_BPF with CAP_PERFMON is,
// where a bpffs is mounted, for all that is not traced in a module. Of anything
// less the error names what lacks, and nothing that is there.
func TestEachCapability(t *testing.T) {
	dir := pinDir(t)
	load(t, Options{PinDir: dir}).Close() // mounts the bpffs
	all, err := setDirs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Unload(dir); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		has    string
		enough bool
	}{
		{"", false},
		{"CAP_BPF", false},
		{"CAP_PERFMON", false},
		{"CAP_BPF CAP_PERFMON", true},
		{"CAP_SYS_ADMIN", true},
		{"CAP_BPF CAP_SYS_ADMIN", true},
		{"CAP_PERFMON CAP_SYS_ADMIN", true},
	} {
		t.Run("has "+tt.has, func(t *testing.T) {
			output, code := loadDeprived(t, dir, envCapabilities+"="+tt.has)
			if !tt.enough {
				if code != exitNotPermitted {
					t.Errorf("exit %d: %s", code, output)
				}
				wantOnlyMissing(t, tt.has, output)
				wantSets(t, dir, 0)
				return
			}
			if code != 0 {
				t.Fatalf("exit %d: %s", code, output)
			}
			sets, err := setDirs(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(sets) < len(all) { // what else is missing is in modules
				wantOnlyMissing(t, tt.has, output)
				if strings.Contains(tt.has, "CAP_SYS_ADMIN") || !strings.Contains(strings.Join(sets, " "), objectLastUse) {
					t.Errorf("there are only %v: %s", sets, output)
				}
			}
			if err := Unload(dir); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// wantOnlyMissing checks that the output of a process names each capability that it
// has not, and no other.
func wantOnlyMissing(t *testing.T, has, output string) {
	t.Helper()
	for _, c := range needed {
		has := slices.Contains(strings.Fields(has), c.Name)
		if named := strings.Contains(output, c.Name); named == has {
			t.Errorf("it has %v: %v, is named: %v: %s", c.Name, has, named, output)
		}
	}
}

// TestNoBPFFS: Load mounts one, at its usual place if that is where it is to
// pin; without the right to, the error names the capability that mounting takes.
func TestNoBPFFS(t *testing.T) {
	needRoot(t)
	usual := filepath.Join(defaultBPFFS, "ebb-test")
	for name, dir := range map[string]string{"usual place": usual, "elsewhere": filepath.Join(t.TempDir(), "pins")} {
		t.Run(name, func(t *testing.T) {
			if output, code := loadDeprived(t, dir, envUnmount+"="+defaultBPFFS); code != 0 {
				t.Fatalf("exit %d: %s", code, output)
			}
			output, code := loadDeprived(t, dir, envUnmount+"="+defaultBPFFS, envCapabilities+"=CAP_BPF CAP_PERFMON")
			if code != exitNotPermitted || !strings.Contains(output, "CAP_SYS_ADMIN to mount bpffs") {
				t.Errorf("exit %d: %s", code, output)
			}
		})
	}
	if _, err := os.Lstat(usual); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s was made in the bpffs of everybody: %v", usual, err)
	}
}

// TestNoTracefs: nothing here needs one, nor debugfs.
func TestNoTracefs(t *testing.T) {
	dir := pinDir(t)
	unmount := envUnmount + "=/sys/kernel/tracing:/sys/kernel/debug/tracing:/sys/kernel/debug"
	if output, code := loadDeprived(t, dir, unmount); code != 0 {
		t.Fatalf("exit %d: %s", code, output)
	}
}

// TestBadModuleTypes: one module whose types cannot be read, of a driver that has nothing to do with it, takes no
// program away.
func TestBadModuleTypes(t *testing.T) {
	dir := pinDir(t)
	load(t, Options{PinDir: dir}).Close() // mounts the bpffs
	usual, _ := loadDeprived(t, dir)
	all, err := setDirs(dir)
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	if err := Unload(dir); err != nil {
		t.Fatal(err)
	}
	if output, code := loadDeprived(t, dir, envModule+"=a_driver"); code != 0 || output != usual {
		t.Errorf("exit %d: %s, and usually %s", code, output, usual)
	}
	wantSets(t, dir, len(all))
}

// TestForeignPins: what others have pinned in our directory stays, whatever its
// name, and keeps us from nothing.
func TestForeignPins(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p := load(t, o)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	foreign := []string{"cilium_calls", "lastuse-file", "somebody/maps/layers"}
	for _, name := range foreign {
		path := filepath.Join(o.PinDir, name)
		mkdir(t, filepath.Dir(path))
		again, err := m.Clone() // or the pin would only move
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if err := again.Pin(path); err != nil {
			t.Fatal(err)
		}
	}
	r := overlay(t)
	p = reload(t, p, o)
	if p.Lost() {
		t.Error("stamps count as lost")
	}
	track(t, p, r.key)
	before := now(t)
	r.run(t, "true")
	wantUsedSince(t, p, r.key, before)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Unload(o.PinDir); err != nil {
		t.Fatal(err)
	}
	for _, name := range foreign {
		if _, err := os.Lstat(filepath.Join(o.PinDir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range foreign {
		if err := os.RemoveAll(filepath.Join(o.PinDir, strings.Split(name, "/")[0])); err != nil {
			t.Error(err)
		}
	}
}
