package rights

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/runtime/cgroup"
)

// The test binary, run again, tries what capabilities are for with what is named by
// these.
const (
	tryDir    = "EBB_RIGHTS_DIR"    // a directory of another user
	tryCgroup = "EBB_RIGHTS_CGROUP" // the id of a cgroup
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(tryDir); dir != "" {
		if err := json.NewEncoder(os.Stdout).Encode(tryAll(dir, os.Getenv(tryCgroup))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// tries are what the agent does with each capability.
var tries = []struct {
	what, capability string
	try              func(dir, cgroup string) error
}{
	{"make a map", "BPF", func(string, string) error {
		// Some kinds are open to everybody where unprivileged BPF is on; this is not.
		m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.LRUHash, KeySize: 4, ValueSize: 4, MaxEntries: 1})
		if err == nil {
			err = m.Close()
		}
		return err
	}},
	{"load a tracing program", "PERFMON", func(string, string) error {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
		if err == nil {
			err = p.Close()
		}
		return err
	}},
	{"open types by id", "SYS_ADMIN", func(string, string) error {
		h, err := btf.NewHandleFromID(1)
		if err == nil {
			err = h.Close()
		}
		return err
	}},
	{"ask for overlayfs", "SYS_ADMIN", func(string, string) error {
		fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}},
	{"find a cgroup by id", "DAC_READ_SEARCH", func(_, id string) error {
		h, err := cgroup.Open()
		if errors.Is(err, cgroup.ErrNone) {
			return nil // nor is there anything to find
		}
		if err != nil {
			return err
		}
		defer h.Close()
		var number uint64
		if _, err := fmt.Sscan(id, &number); err != nil {
			return err
		}
		_, err = h.Path(number)
		return err
	}},
	{"look into a closed directory", "DAC_READ_SEARCH", func(dir, _ string) error {
		_, err := os.Stat(filepath.Join(dir, "closed", "file"))
		return err
	}},
	{"open a directory without a trace", "FOWNER", func(dir, _ string) error {
		fd, err := unix.Open(filepath.Join(dir, "open"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOATIME, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}},
}

// tryAll returns what was refused.
func tryAll(dir, cgroup string) (refused []string) {
	for _, t := range tries {
		if err := t.try(dir, cgroup); err != nil {
			refused = append(refused, t.what)
		}
	}
	return refused
}

// granted are the capabilities of the DaemonSet.
func granted(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../manifests/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(data), "kind: DaemonSet\n")
	if !ok {
		t.Fatal("no DaemonSet in ../manifests/agent.yaml")
	}
	var set struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						SecurityContext struct {
							AllowPrivilegeEscalation bool
							Capabilities             struct{ Add []string }
						}
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &set); err != nil {
		t.Fatal(err)
	}
	c := set.Spec.Template.Spec.Containers[0].SecurityContext
	if len(c.Capabilities.Add) == 0 || c.AllowPrivilegeEscalation {
		t.Fatalf("unexpected security context %+v", c)
	}
	return c.Capabilities.Add
}

// preset are the capabilities of the chart's preset without SYS_ADMIN.
func preset(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../chart/presets/without-sys-admin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Agent struct{ Capabilities []string }
	}
	if err := yaml.UnmarshalStrict(data, &values); err != nil || len(values.Agent.Capabilities) == 0 {
		t.Fatalf("%v: %s", err, data)
	}
	return values.Agent.Capabilities
}

// confined is the command line that has these capabilities and no others, as root in
// a container has them.
func confined(capabilities []string, args ...string) []string {
	set := "-all"
	for _, c := range capabilities {
		set += ",+" + strings.ToLower(c)
	}
	return append([]string{"setpriv", "--no-new-privs", "--bounding-set", set, "--inh-caps", "-all", "--"}, args...)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: taking capabilities away needs root")
	}
}

// foreign makes directories of another user: an open and a closed one.
func foreign(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const nobody = 65534
	for name, mode := range map[string]os.FileMode{"open": 0o755, "closed": 0o700} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(path, mode), os.WriteFile(filepath.Join(path, "file"), nil, 0o600), os.Chown(path, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// anyCgroup is the id of the root of the v2 hierarchy, which has one everywhere.
const anyCgroup = "1"

func TestEachCapabilityIsNeeded(t *testing.T) {
	needRoot(t)
	all, dir := granted(t), foreign(t)
	refused := func(capabilities []string) (list []string) {
		t.Helper()
		line := confined(capabilities, os.Args[0])
		cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
		cmd.Env = append(os.Environ(), tryDir+"="+dir, tryCgroup+"="+anyCgroup)
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &list)
		}
		if err != nil {
			t.Fatalf("with %v: %v\n%s", capabilities, err, out)
		}
		return list
	}
	if list := refused(all); len(list) > 0 {
		t.Errorf("with all of %v these are refused: %q", all, list)
	}
	for _, c := range all {
		// SYS_ADMIN stands in for the two that were once part of it.
		without := slices.DeleteFunc(slices.Clone(all), func(s string) bool {
			return s == c || s == "SYS_ADMIN" && (c == "BPF" || c == "PERFMON")
		})
		list := refused(without)
		for _, try := range tries {
			// Nothing of BPF works without BPF.
			wants := try.capability == c || c == "BPF" && try.capability == "PERFMON" || !slices.Contains(without, try.capability)
			if got := slices.Contains(list, try.what); got != wants {
				t.Errorf("without %s: %q is refused: %v, want %v", c, try.what, got, wants)
			}
		}
		if !slices.ContainsFunc(tries, func(try struct {
			what, capability string
			try              func(dir, cgroup string) error
		}) bool {
			return try.capability == c
		}) {
			t.Errorf("nobody knows what %s is for", c)
		}
	}
}
