package vm

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/tools/vm/report"
)

// suite is the tests of one package, as they run in a machine. What is left out
// is left out for a reason, which stands beside it.
type suite struct {
	pkg     string
	run     string // tests to run; all if ""
	skip    string // tests to leave out
	slow    string // tests to leave out of a quick run, too, or all
	args    []string
	timeout time.Duration
}

//go:embed bpf-slow.txt
var bpfSlow string

// slowOfBPF matches the tests of package bpf that "make test" leaves out, too.
func slowOfBPF() string {
	var names []string
	for line := range strings.Lines(bpfSlow) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, line)
		}
	}
	return strings.Join(names, "|")
}

// all is slow where a quick run has no test of the package.
const all = "."

var suites = []suite{
	// Left out: what user space does with files of a bpffs, the same on every
	// kernel; of the many ways to take space those that differ from another only
	// above the filesystem; most of btrfs's profiles, whose arithmetic is ours; and
	// filesystems with rare options. Fewer random histories, for each takes seconds:
	// rapid makes a fifth with -short.
	{
		pkg: "bpf", args: []string{"-rapid.checks=50"}, timeout: 20 * time.Minute,
		skip: "TestCrashAtAnyStep|TestDamagedPinsAreReplaced|TestPinDirectoryOfOthers|TestPinnedByOthers|TestReport|TestForeignPins|TestNoBPFFS|" +
			"TestNoUseIsMissedByAnUpgrade|TestEachCapability/.*SYS_ADMIN|" +
			"TestCrossing/(synced|fallocate_of|truncate|copy|tiny|unpacking)|" +
			"TestNeverLateByAnyWay/./(synced|fallocate_of|truncate|copy|tiny|unpacking|direct_write_into|mapped_reflink)|" +
			"TestCountedOnEveryProfile/(raid0|raid1c|raid10|raid5|raid6|singleraid|.*768)|" +
			"TestWriterAgreesWithTheFilesystem/(ext4_1k|ext4_indirect|xfs_|btrfs_)",
		slow: slowOfBPF(),
	},
	{pkg: "runtime/fs", timeout: 5 * time.Minute},
	{pkg: "runtime/cgroup", timeout: 5 * time.Minute},
	{pkg: "tools/cgroup", timeout: 5 * time.Minute},
	// Left out: what compares with files of the repository, which is not in the machine.
	// Most of it knows no kernel but a fake one, and a quick run leaves all of it out.
	{pkg: "agent/node", skip: "TestGenerated|TestSamples", slow: all, timeout: 10 * time.Minute},
	// The main job, last use, writers and quotas, on containerd 1.6: what depends on
	// the kernel. The faults of sockets, clocks and files are the same on every kernel.
	{
		pkg: "agent/node/e2e", timeout: 15 * time.Minute,
		run:  "^(TestModulesComeLater|TestUseWhileDown|TestWhoFillsTheDisk|TestProjectQuota)$/^(debian|ext4|xfs|btrfs)$",
		slow: "TestModulesComeLater|TestWhoFillsTheDisk|TestProjectQuota",
	},
}

// reboot is the one suite that needs a disk. It chooses by what is on it between what comes
// before the reset and what comes after.
var reboot = suite{pkg: "agent/node/e2e", run: "^TestReboot$", timeout: 10 * time.Minute}

// Selection is what to run of the suites; the zero value is all of them.
type Selection struct {
	Package string // only this one's
	Run     string // these tests of it, those left out included
	Count   int    // how often each; once if 0
	Quick   bool   // without those that take long
	Load    bool   // none: the kernel programs are loaded and attached, once, as always
	Reboot  bool   // the one for [Machine.Reboot]
}

// suites returns what was selected.
func (s Selection) suites() ([]suite, error) {
	if s == (Selection{}) {
		return suites, nil
	}
	if s.Load {
		return nil, nil
	}
	if s.Reboot {
		return []suite{reboot}, nil
	}
	if s.Quick {
		return quick(), nil
	}
	for _, one := range suites {
		if one.pkg != s.Package {
			continue
		}
		if s.Run != "" {
			one.run, one.skip = s.Run, ""
		}
		if s.Count > 0 {
			one.args = append(slices.Clone(one.args), fmt.Sprint("-test.count=", s.Count))
			one.timeout *= time.Duration(s.Count)
		}
		return []suite{one}, nil
	}
	return nil, fmt.Errorf("no suite %q to select from", s.Package)
}

// quick are all suites without what takes long.
func quick() []suite {
	list := slices.DeleteFunc(slices.Clone(suites), func(s suite) bool { return s.slow == all })
	for i := range list {
		list[i].skip = strings.Trim(list[i].skip+"|"+list[i].slow, "|")
	}
	return list
}

// Where things are in the machine.
const (
	suiteDir  = "/ebb"
	agentFile = suiteDir + "/ebb-agent"
)

// environment tells tests what they may count on. EBB_TEST_AGENT is a built
// agent, for machines without a compiler; the others say that the modules of
// filesystems are the test's to unload, the machine its to suspend, and which disk is
// its to make a filesystem on, if there is one.
var environment = []string{"EBB_TEST_AGENT=" + agentFile, "EBB_TEST_UNLOAD_MODULES=1", "EBB_TEST_SUSPEND=1", "EBB_TEST_DISK=/dev/vda"}

func (s suite) binary() string { return filepath.Join(suiteDir, s.pkg, "test") }

func (s suite) order() report.Suite {
	o := report.Suite{
		Name: s.pkg, Program: s.binary(), Dir: filepath.Dir(s.binary()), Timeout: s.timeout,
		Args: append([]string{"-test.v", "-test.short", "-test.timeout=0"}, s.args...),
		Env:  environment,
	}
	if s.run != "" {
		o.Args = append(o.Args, "-test.run="+s.run)
	}
	if s.skip != "" {
		o.Args = append(o.Args, "-test.skip="+s.skip)
	}
	return o
}

// compile builds the guest, the agent and the suites into dir, statically, and
// returns where each is to be in the machine.
func compile(ctx context.Context, dir, kind string, suites []suite) (map[string]string, error) {
	targets := map[string]string{}
	build := func(target string, args ...string) error {
		file := filepath.Join(dir, fmt.Sprint(len(targets)))
		args = append([]string{"CGO_ENABLED=0", "GOARCH=" + kind, "go"}, args...)
		args = append(args[:len(args)-1], "-trimpath", "-ldflags=-s -w", "-o", file, args[len(args)-1])
		if _, err := run(ctx, "", "env", args...); err != nil {
			return err
		}
		targets[target] = file
		return nil
	}
	if err := build("/init", "build", "github.com/ebb-agent/ebb/tools/vm/guest"); err != nil {
		return nil, err
	}
	if len(suites) == 0 {
		return targets, nil
	}
	if err := build(agentFile, "build", "github.com/ebb-agent/ebb/cmd/ebb-agent"); err != nil {
		return nil, err
	}
	for _, s := range suites {
		if err := build(s.binary(), "test", "-c", "github.com/ebb-agent/ebb/"+s.pkg); err != nil {
			return nil, err
		}
	}
	return targets, nil
}
