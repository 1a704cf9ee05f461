package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/vm/report"
)

// machine is one whose qemu is a shell script. The script finds the file for
// its report in $report.
func machine(t *testing.T, script string) (Machine, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	qemu := filepath.Join(dir, "qemu")
	find := "#!/bin/sh\nfor a in \"$@\"; do case $a in file:*) report=${a#file:};; esac; done\n"
	if err := os.WriteFile(qemu, []byte(find+script), 0o755); err != nil {
		t.Fatal(err)
	}
	console := &bytes.Buffer{}
	return Machine{
		QEMU: qemu, Kernel: "/vmlinuz", Initramfs: "/initramfs", CPUs: 2, MemoryMiB: 64,
		Order:   report.Order{Suites: []report.Suite{{Name: "a"}}},
		Timeout: time.Minute, Console: console, Log: filepath.Join(dir, "log"),
	}, console
}

const (
	passed = `echo '{"Result":{"Name":"a","Passed":1}}' >>$report; `
	end    = `echo '{"End":true}' >>$report; `
)

func TestMachineEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		is     error
		want   []string
	}{
		"passes":            {passed + end, nil, nil},
		"fails":             {`echo '{"Result":{"Name":"a","Exit":1,"Passed":1}}' >$report; ` + end, report.ErrFailed, []string{"a: exit status 1"}},
		"panics":            {passed + `echo 'Kernel panic - not syncing: oh'; exit 0`, report.ErrNoVerdict, []string{"after a", "Kernel panic - not syncing: oh"}},
		"panics in a suite": {`echo '{"Begin":"a"}' >$report; echo Oops; exit 1`, report.ErrNoVerdict, []string{"in a", "exit status 1", "Oops"}},
		"never starts":      {`echo 'qemu: no memory' >&2; exit 1`, report.ErrNoVerdict, []string{"qemu: no memory", "exit status 1"}},
		"prints nothing":    {`exit 0`, report.ErrNoVerdict, []string{"before the first suite"}},
		"garbles":           {`echo garbage >$report`, nil, []string{"read report", "garbage"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := machine(t, tt.script)
			_, err := m.Run(t.Context())
			if (err == nil) != (tt.is == nil && tt.want == nil) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Fatalf("error is %v, want %v", err, tt.is)
			}
			for _, text := range tt.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in the error: %v", text, err)
				}
			}
		})
	}
}

// TestMachineHangs: a machine that does not power off is
// killed, and what it reported still counts.
func TestMachineHangs(t *testing.T) {
	m, _ := machine(t, `echo '{"Begin":"a"}' >$report; echo the last words; exec sleep 1000`)
	m.Timeout = 300 * time.Millisecond
	_, err := m.Run(t.Context())
	if !errors.Is(err, ErrHung) || !errors.Is(err, report.ErrNoVerdict) || !strings.Contains(err.Error(), "in a") {
		t.Errorf("error is %v", err)
	}
}

func TestMachineIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m, _ := machine(t, `echo up; exec sleep 1000`)
	m.Console = &onWrite{do: cancel}
	if _, err := m.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

type onWrite struct{ do func() }

func (w *onWrite) Write(p []byte) (int, error) { w.do(); return len(p), nil }

func TestConsoleIsKeptAndPassedOn(t *testing.T) {
	m, console := machine(t, `printf '\033c\033[?7l\033[2Jone\r\ntwo\n'; `+passed+end)
	if _, err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(m.Log)
	if err != nil || string(log) != "one\ntwo\n" || console.String() != "one\ntwo\n" {
		t.Errorf("log %q, %v; console %q", log, err, console)
	}
}

func TestArguments(t *testing.T) {
	m, _ := machine(t, "")
	m.Parameters = []string{"nohz_full=1"}
	args := m.arguments(arches["amd64"], "/r")
	for _, want := range [][]string{
		{"-accel", "tcg,thread=single"}, {"-smp", "2"}, {"-m", "64M"}, {"-nic", "none"}, {"-no-reboot"},
		{"-kernel", "/vmlinuz"}, {"-initrd", "/initramfs"}, {"-serial", "stdio", "-serial", "file:/r"},
	} {
		at := slices.Index(args, want[0])
		if at < 0 || !slices.Equal(args[at:min(at+len(want), len(args))], want) {
			t.Errorf("%q is not in %q", want, args)
		}
	}
	if slices.Contains(args, "-drive") {
		t.Errorf("a disk that nobody asked for: %q", args)
	}
	parameters := args[slices.Index(args, "-append")+1]
	for _, want := range []string{"console=ttyS0", "panic=-1", "oops=panic", "cgroup_no_v1=all", "nohz_full=1"} {
		if !slices.Contains(strings.Fields(parameters), want) {
			t.Errorf("%s is not in %q", want, parameters)
		}
	}
}

// TestReboot: a machine that goes down in the middle of a suite is booted again with what
// it has written; one that does anything else in its first boot has failed.
func TestReboot(t *testing.T) {
	disk := `for a in "$@"; do case $a in *,file=*) disk=${a#*,file=};; esac; done; `
	begin := `echo '{"Begin":"a"}' >>$report; `
	for name, tt := range map[string]struct {
		script string
		is     error
	}{
		"reset":    {`if [ -s $disk.was ]; then ` + passed + end + ` else ` + begin + `echo x >$disk.was; fi`, nil},
		"not":      {passed + end, ErrNotReset},
		"too soon": {`exit 0`, report.ErrNoVerdict},
		"fails":    {`echo '{"Result":{"Name":"a","Exit":1,"Passed":1}}' >$report; ` + end, report.ErrFailed},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := machine(t, disk+tt.script)
			if _, err := m.Reboot(t.Context()); !errors.Is(err, tt.is) {
				t.Errorf("error is %v, want %v", err, tt.is)
			}
		})
	}
}

// TestArmArguments: another machine, whose report goes another way.
func TestArmArguments(t *testing.T) {
	m, _ := machine(t, "")
	args := m.arguments(arches["arm64"], "/r")
	if at := slices.Index(args, "-machine"); at < 0 || !strings.HasPrefix(args[at+1], "virt") {
		t.Errorf("machine: %q", args)
	}
	if !slices.Contains(args, "file,id=report,path=/r") || slices.Contains(args, "file:/r") {
		t.Errorf("report: %q", args)
	}
	if !strings.HasPrefix(args[slices.Index(args, "-append")+1], "console=ttyAMA0 ") {
		t.Errorf("parameters: %q", args)
	}
	if last := arches["arm64"].reportPort; last[len(last)-1] != "file,id=report,path=" {
		t.Errorf("a machine's file became that of the next: %q", last)
	}
}

func TestArchOfKernels(t *testing.T) {
	for kind, names := range map[string][]string{"amd64": Kernels, "arm64": ArmKernels} {
		for _, name := range names {
			if got, err := archOf(name); err != nil || got.name != kind {
				t.Errorf("kernel %s is for %q, %v", name, got.name, err)
			}
		}
	}
	for _, name := range []string{"", "cloud", "cloud-riscv64"} {
		if _, err := archOf(name); err == nil {
			t.Errorf("kernel %q is for a known machine", name)
		}
	}
}

func TestEscapesInPieces(t *testing.T) {
	var out bytes.Buffer
	c := &cleaned{w: &out}
	for _, b := range []byte("a\x1bcb\x1b[?7lc\x1b[0;1md\r\n") {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "abcd\n" {
		t.Errorf("got %q", &out)
	}
}

func TestPrefixedLinesStayWhole(t *testing.T) {
	var out bytes.Buffer
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		w := Prefixed(&out, &mu, name+": ")
		group.Go(func() {
			for range 500 {
				fmt.Fprint(w, "li")
				fmt.Fprint(w, "ne\n")
			}
		})
	}
	group.Wait()
	for line := range strings.Lines(out.String()) {
		if line != "a: line\n" && line != "b: line\n" {
			t.Fatalf("line %q", line)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1000 {
		t.Errorf("%d lines, want 1000", n)
	}
}
