package result

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
)

// TestSources: the hash is of what a package is made of, as it is committed, and of nothing
// else.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	commit := func() { t.Helper(); git("add", "."); git("commit", "-qm", "x") }
	write("go.mod", "module example.test/m\n\ngo 1.24\n")
	write("bench/one/main.go", "package main\n\nimport _ \"example.test/m/used\"\n\nfunc main() {}\n")
	write("used/a.go", "package used\n")
	write("other/a.go", "package other\n")
	git("init", "-q")
	commit()
	of := func() (string, bool) {
		t.Helper()
		hash, dirty, err := SourcesOf([]string{"./bench/one"})
		if err != nil {
			t.Fatal(err)
		}
		return hash, dirty
	}
	first, dirty := of()
	if dirty {
		t.Error("a clean tree is dirty")
	}
	write("used/a_test.go", "package used\n")
	write("other/a.go", "package other // changed\n")
	write("docs/a.md", "text\n")
	if hash, dirty := of(); hash != first || dirty {
		t.Errorf("tests, texts and other packages count: %s, dirty %v; was %s", hash, dirty, first)
	}
	commit()
	if hash, dirty := of(); hash != first || dirty {
		t.Errorf("committed, they count: %s, dirty %v; was %s", hash, dirty, first)
	}
	write("used/b.go", "package used\n")
	if hash, dirty := of(); hash != first || !dirty {
		t.Errorf("a new source: %s, dirty %v; was %s", hash, dirty, first)
	}
	commit()
	if hash, dirty := of(); hash == first || dirty {
		t.Errorf("a committed source: %s, dirty %v; was %s", hash, dirty, first)
	}
}

// TestOriginWithoutACheckout: the build information has the commit of a result, and its sources stay
// unknown. One that is of no commit is refused.
func TestOriginWithoutACheckout(t *testing.T) {
	t.Cleanup(func() { buildInfo = debug.ReadBuildInfo })
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PATH", dir) // neither git nor go
	info := &debug.BuildInfo{Path: "github.com/ebb-agent/ebb/bench/one"}
	buildInfo = func() (*debug.BuildInfo, bool) { return info, true }
	if o, err := NewOrigin(); err == nil {
		t.Errorf("of no commit: %+v", o)
	}
	for _, modified := range []bool{false, true} {
		info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: "c"}, {Key: "vcs.modified", Value: fmt.Sprint(modified)}}
		o, err := NewOrigin()
		if err != nil || o.Commit != "c" || o.Dirty != modified || o.Made.Sources != "" || !slices.Equal(o.Made.Packages, []string{"./bench/one"}) || o.Emulated {
			t.Errorf("modified %v: %+v, %v", modified, o, err)
		}
	}
	t.Setenv("EBB_BOX", "one/box 1.2")
	for answer, want := range map[string]bool{"qemu": true, "kvm": false} {
		if err := os.WriteFile("systemd-detect-virt", []byte("#!/bin/sh\necho "+answer+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if o, err := NewOrigin(); err != nil || o.Emulated != want || o.Hypervisor != answer || o.Box != "one/box 1.2" {
			t.Errorf("%s: %+v, %v", answer, o, err)
		}
	}
}

func TestWithOrigin(t *testing.T) {
	dir := t.TempDir()
	for _, figures := range []string{`{}`, `{"a":1}`} {
		text, err := withOrigin(Origin{Commit: "c"}, []byte(figures))
		if err != nil || os.WriteFile(filepath.Join(dir, "x.json"), text, 0o644) != nil {
			t.Fatalf("%s: %v", text, err)
		}
		o, err := OriginOf(dir, "x")
		if err != nil || o == nil || o.Commit != "c" {
			t.Errorf("origin of %s: %+v, %v", text, o, err)
		}
		var f map[string]float64
		if err := Read(dir, "x", &f); err != nil || len(f) != len(figures)/7 {
			t.Errorf("figures of %s: %v, %v", text, f, err)
		}
	}
	if _, err := withOrigin(Origin{}, []byte("[]")); err == nil {
		t.Error("a list has an origin")
	}
}

func TestSpread(t *testing.T) {
	for want, s := range map[string]Spread{
		"": SpreadOf(nil), "2": SpreadOf([]float64{2}), "2 (1-300)": SpreadOf([]float64{300, 1, 2}),
	} {
		if s.String() != want {
			t.Errorf("%+v is %q, want %q", s, s, want)
		}
	}
}
