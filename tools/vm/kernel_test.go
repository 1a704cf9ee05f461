package vm

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/vm/report"
)

func TestParseStanza(t *testing.T) {
	p, err := parseStanza("Package: linux-image-cloud-amd64\nVersion: 6.1.5-2\n" +
		"Depends: linux-image-6.1.0-9-cloud-amd64 (= 6.1.5-2)\nDescription: x\n more: y\n\nPackage: other\nVersion: 1\n")
	want := debianPackage{"linux-image-cloud-amd64", "6.1.5-2", "linux-image-6.1.0-9-cloud-amd64 (= 6.1.5-2)"}
	if err != nil || p != want {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, text := range []string{"", "Package: x\n", "Version: 1\n", "N: Unable to locate package\n"} {
		if _, err := parseStanza(text); !errors.Is(err, errStanza) {
			t.Errorf("%q: error is %v", text, err)
		}
	}
}

func TestFirstImage(t *testing.T) {
	for depends, want := range map[string]string{
		"linux-image-6.1.0-9-amd64 (= 6.1.5-2)":              "linux-image-6.1.0-9-amd64",
		"kmod, linux-base (>= 4.3~), linux-image-6.12-amd64": "linux-image-6.12-amd64",
		"kmod, initramfs-tools | linux-initramfs-tool":       "",
		"": "",
	} {
		if got := firstImage(depends); got != want {
			t.Errorf("%q: %q, want %q", depends, got, want)
		}
	}
}

func TestParseDepends(t *testing.T) {
	got, err := parseDepends("builtin ext4\ninsmod /k/crc.ko.xz \ninsmod /k/xfs.ko.xz option=1\n")
	if err != nil || !slices.Equal(got, []string{"/k/crc.ko.xz", "/k/xfs.ko.xz"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := parseDepends("install /bin/true\n"); !errors.Is(err, errDepends) {
		t.Errorf("error is %v", err)
	}
}

func column(name string, r report.Report) Column {
	return Column{Name: name, Package: "linux-image-" + name + " 1", Report: r}
}

func TestTable(t *testing.T) {
	p := func(name, reason string) report.Program {
		return report.Program{Name: name, AttachPoint: "at_" + name, Attached: reason == "", Reason: reason}
	}
	one := report.Report{
		Kernel:   report.Kernel{Modules: []string{"loop", "overlay", "xfs"}},
		Programs: []report.Program{p("x", ""), p("y", "no such\ntracepoint")},
		Suites:   []report.Result{{Name: "bpf", Passed: 9}, {Name: "runtime/fs", Exit: 1, FailedTests: []string{"TestF"}}},
	}
	two := report.Report{
		Programs: []report.Program{p("x", "no such\ntracepoint"), p("z", "")},
		Suites:   []report.Result{{Name: "bpf", Passed: 8, Skipped: []string{"TestS"}}},
	}
	got := Table(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), []Column{column("k1", one), column("k2", two), {Name: "k3"}})
	for _, want := range []string{
		"Made on 2030-01-02",
		"|  | `k1` | `k2` | `k3` |\n| --- | --- | --- | --- |\n",
		"| package | linux-image-k1 1 | linux-image-k2 1 | not to be had |",
		"| modules of filesystems | overlay, xfs | none | none |",
		"| program `x` (at_x) | yes | no (1) | not tried |",
		"| program `y` (at_y) | no (1) | not tried | not tried |",
		"| program `z` (at_z) | not tried | yes | not tried |",
		"| tests `bpf` | 9 passed | 8 passed, 1 skipped (2) | no verdict |",
		"| tests `runtime/fs` | **failed** (3) | no verdict | no verdict |",
		"\n\n1. no such tracepoint\n2. skipped: TestS\n3. failed: TestF\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

func TestWriteTable(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	for _, table := range []string{"first\n", "second\n"} { // in place of the first
		if table == "first\n" {
			if err := os.WriteFile(page, []byte("before\n"+tableBegin("arm64")+"\nold\n"+tableEnd("arm64")+"\nafter\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := WriteTable(page, "arm64", table); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(page)
		if want := "before\n" + tableBegin("arm64") + "\n" + table + tableEnd("arm64") + "\nafter\n"; err != nil || string(text) != want {
			t.Errorf("page is %q, %v", text, err)
		}
	}
	if err := os.WriteFile(page, []byte("no table here"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteTable(page, "amd64", "x"); !errors.Is(err, ErrNoTable) {
		t.Errorf("error is %v", err)
	}
}

// TestSuitesAreOrdered: the machine gets the order that people read about a suite.
func TestSuitesAreOrdered(t *testing.T) {
	s := suite{pkg: "a/b", run: "^TestX$", skip: "TestY", args: []string{"-n=1"}, timeout: time.Minute}
	o := s.order()
	for _, want := range []string{"-test.v", "-n=1", "-test.run=^TestX$", "-test.skip=TestY"} {
		if !slices.Contains(o.Args, want) {
			t.Errorf("%s is not in %q", want, o.Args)
		}
	}
	if o.Name != "a/b" || o.Program != "/ebb/a/b/test" || o.Dir != "/ebb/a/b" || o.Timeout != time.Minute {
		t.Errorf("order is %+v", o)
	}
}

// fakeApt puts programs in the place of apt's, and returns the file in which
// they note how they were called.
func fakeApt(t *testing.T, cache, get string) string {
	t.Helper()
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	for name, script := range map[string]string{"apt-cache": cache, "apt-get": get} {
		text := "#!/bin/sh\necho " + name + " \"$@\" >>" + calls + "\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return calls
}

const knowsKernels = `case "$3" in
linux-image-x-amd64) echo "Package: $3"; echo "Version: 1"; echo "Depends: linux-image-1-x (= 1)";;
*) echo "Package: $3"; echo "Version: 1";;
esac`

// TestFetchFailsClearly: without a network, or with lists that name what is no
// longer there, the error names the kernel, the command and the output of apt.
func TestFetchFailsClearly(t *testing.T) {
	for name, tt := range map[string]struct {
		cache, get string
		want       []string
	}{
		"no such package": {"echo N: none; exit 100", "exit 0", []string{"linux-image-x-amd64", "apt-cache show"}},
		"no network":      {knowsKernels, "echo E: cannot reach the mirror >&2; exit 100", []string{"apt-get download linux-image-1-x=1", "apt-get update", "E: cannot reach the mirror"}},
		"old lists":       {knowsKernels, `[ "$1" = update ] || { echo "E: 404 not found" >&2; exit 100; }`, []string{"apt-get download linux-image-1-x=1", "404 not found"}},
	} {
		t.Run(name, func(t *testing.T) {
			calls := fakeApt(t, tt.cache, tt.get)
			cache := t.TempDir()
			_, err := Fetch(t.Context(), cache, "x-amd64")
			if err == nil {
				t.Fatal("a kernel came")
			}
			for _, want := range append(tt.want, "fetch kernel x-amd64", "apt sources") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			text, err := os.ReadFile(calls)
			if err != nil || strings.Count(string(text), "apt-get update") != 1 {
				t.Errorf("called were: %v\n%s", err, text)
			}
			left, err := filepath.Glob(filepath.Join(cache, "kernels", "*"))
			if err != nil || len(left) != 1 { // the lock
				t.Errorf("left in the cache: %v, %v", left, err)
			}
		})
	}
}

// TestSelection: what is asked for is run, that which is usually left out too.
func TestSelection(t *testing.T) {
	if all, err := (Selection{}).suites(); err != nil || len(all) != len(suites) {
		t.Errorf("without a selection: %d suites, %v", len(all), err)
	}
	got, err := Selection{Package: "bpf", Run: "TestX", Count: 3}.suites()
	if err != nil || len(got) != 1 || got[0].run != "TestX" || got[0].skip != "" ||
		!slices.Contains(got[0].args, "-test.count=3") || got[0].timeout != 3*suites[0].timeout {
		t.Errorf("selected %+v, %v", got, err)
	}
	if slices.Contains(suites[0].args, "-test.count=3") {
		t.Error("the selection changed the suites")
	}
	for _, s := range []Selection{{Package: "nowhere"}, {Run: "TestX"}} {
		if _, err := s.suites(); err == nil {
			t.Errorf("%+v selects something", s)
		}
	}
}
