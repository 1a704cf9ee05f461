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

// suite is the tests of one package, as they run in a machine. A comment beside each
// suite gives the reasons for left-out tests.
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

// all is the value of slow if a quick run leaves out the whole package.
const all = "."

var suites = []suite{
	// Left out are four groups. Operations of user space on files of a bpffs are the
	// same on every kernel. Some ways of taking space differ from others only above the
	// filesystem. Most btrfs profiles test only ebb's arithmetic. The rest are
	// filesystems with rare options. There are fewer random histories, because each
	// takes seconds: rapid makes a fifth with -short.
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
	// Left out: comparisons with files of the repository, which the machine does not
	// have. Most of these tests use a fake kernel only, so a quick run leaves out the
	// package.
	{pkg: "agent/node", skip: "TestGenerated|TestSamples", slow: all, timeout: 10 * time.Minute},
	// The main job, last use, writers and quotas, on containerd 1.6: the tests that
	// depend on the kernel. The faults of sockets, clocks and files are the same on
	// every kernel.
	{
		pkg: "agent/node/e2e", timeout: 15 * time.Minute,
		run:  "^(TestModulesComeLater|TestUseWhileDown|TestWhoFillsTheDisk|TestProjectQuota)$/^(debian|ext4|xfs|btrfs)$",
		slow: "TestModulesComeLater|TestWhoFillsTheDisk|TestProjectQuota",
	},
}

// reboot is the only suite that needs a disk. By the content of the disk it recognises
// whether it runs before or after the reset.
var reboot = suite{pkg: "agent/node/e2e", run: "^TestReboot$", timeout: 10 * time.Minute}

// Selection selects suites; the zero value selects all.
type Selection struct {
	Package string // only this package's tests
	Run     string // with Package: only these tests, even left-out ones
	Count   int    // with Package: runs of each test; 0 means 1
	Quick   bool   // without slow tests
	Load    bool   // no suite; the kernel programs are attached once, as always
	Reboot  bool   // only the suite for [Machine.Reboot]
}

// suites returns the selected suites.
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

// quick returns all suites without slow tests.
func quick() []suite {
	list := slices.DeleteFunc(slices.Clone(suites), func(s suite) bool { return s.slow == all })
	for i := range list {
		list[i].skip = strings.Trim(list[i].skip+"|"+list[i].slow, "|")
	}
	return list
}

// Paths in the machine.
const (
	suiteDir  = "/ebb"
	agentFile = suiteDir + "/ebb-agent"
)

// environment describes the machine to the tests. EBB_TEST_AGENT is a built agent,
// because the machine has no compiler. The others allow a test to unload filesystem
// modules, to suspend the machine, and to make a filesystem on that disk, if it exists.
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

// compile builds the guest, the agent and the suites into dir, statically. It returns
// the files by their paths in the machine.
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
