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
			if err := os.WriteFile(page, []byte("before\n"+tableBegin+"\nold\n"+tableEnd+"\nafter\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := WriteTable(page, table); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(page)
		if want := "before\n" + tableBegin + "\n" + table + tableEnd + "\nafter\n"; err != nil || string(text) != want {
			t.Errorf("page is %q, %v", text, err)
		}
	}
	if err := os.WriteFile(page, []byte("no table here"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteTable(page, "x"); !errors.Is(err, ErrNoTable) {
		t.Errorf("error is %v", err)
	}
}

// TestSuitesAreOrdered: what people read about a suite is what the machine is
// told to do.
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
