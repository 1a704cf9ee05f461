package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// TestBoxHasThePackages: in a machine of the box, nothing is left to install.
func TestBoxHasThePackages(t *testing.T) {
	box := strings.Fields(output(t, "vagrant/box.sh", "--packages"))
	for file, list := range map[string]*regexp.Regexp{
		"cluster/provision.sh": regexp.MustCompile(`need\.sh" ((?:.*\\\n)*.*)`),
		"../Makefile":          regexp.MustCompile(`(?m)^NODE_PACKAGES := ((?:.*\\\n)*.*)`),
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := list.FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no list of packages", file)
		}
		needed := strings.Fields(strings.ReplaceAll(string(found[1]), "\\\n", " "))
		for _, name := range needed {
			if !slices.Contains(box, name) {
				t.Errorf("%s needs %s, which the box does not have", file, name)
			}
		}
		if len(needed) < 5 {
			t.Errorf("%s: only %q", file, needed)
		}
	}
}

func TestShellOfTheBox(t *testing.T) {
	scripts, err := filepath.Glob("vagrant/*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, script := range scripts {
		output(t, "bash", "-n", script)
	}
}

// TestDriver: kvm is taken only where a kernel has come as far as it can.
func TestDriver(t *testing.T) {
	const panics = "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"
	for _, c := range []struct{ console, want string }{
		{"Linux version 6.1\n" + panics + "\n", "kvm"}, {"Linux version 6.1\n", "qemu"}, {"", "qemu"},
	} {
		dir := t.TempDir()
		// It ends with an error, as the real one does when it is stopped.
		qemu := fmt.Sprintf("#!/bin/sh\nwhile [ $1 != -serial ]; do shift; done\nprintf %%s '%s' >\"${2#file:}\"\nexit 1\n", c.console)
		if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte(qemu), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		if got := strings.TrimSpace(output(t, "vagrant/driver.sh", "kernel")); got != c.want {
			t.Errorf("%q: %q, want %q", c.console, got, c.want)
		}
	}
}
