package result

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Origin describes what produced the figures of a result: the sources, the machine and the
// configuration.
type Origin struct {
	Commit string    `json:"commit"`
	Dirty  bool      `json:"dirty"` // sources differed from the commit
	Date   time.Time `json:"date"`
	Made   Made      `json:"made"`
	Kernel string    `json:"kernel"`
	// Machine describes the CPUs and the memory.
	Machine string `json:"machine"`
	// Emulated reports whether qemu emulated the machine instruction by instruction: then no time
	// means anything.
	Emulated bool `json:"emulated"`
	// Hypervisor is what systemd-detect-virt calls it: "" on a real machine, or where that is not installed.
	Hypervisor string `json:"hypervisor"`
	// Box is the Vagrant box of the machine, with its version (EBB_BOX); "" elsewhere.
	Box string `json:"box,omitempty"`
	// Versions has the versions of Go and of the programs that can be measured beside ebb, by name,
	// whether or not this benchmark measures them.
	Versions map[string]string `json:"versions"`
	// Configuration has the flags that were not at their defaults, except path flags.
	Configuration map[string]string `json:"configuration"`
}

// Made identifies the sources that the figures depend on.
type Made struct {
	Packages []string `json:"packages"` // the benchmark, and the programs that it measures
	Sources  string   `json:"sources"`  // see [SourcesOf]; "" where there is no checkout
}

// paths are the flags whose value is a path. Each flag in programs also names a package below cmd.
var (
	programs = []string{"agent", "controller", "ebb"}
	paths    = append([]string{"results", "deploy"}, programs...)
)

var buildInfo = debug.ReadBuildInfo // replaced by tests

// NewOrigin returns the origin of the running benchmark, which must run at the top of the
// repository. Without a checkout, as in a virtual machine, Commit and Dirty come from the build.
func NewOrigin() (o Origin, err error) {
	o = Origin{Date: time.Now().UTC().Truncate(time.Second), Versions: versions(), Configuration: map[string]string{}}
	info, ok := buildInfo()
	if ok {
		o.Made.Packages = []string{"./" + strings.TrimPrefix(info.Path, "github.com/ebb-agent/ebb/")}
	}
	flag.VisitAll(func(f *flag.Flag) {
		switch {
		case slices.Contains(programs, f.Name):
			o.Made.Packages = append(o.Made.Packages, "./cmd/"+filepath.Base(f.Value.String()))
		case !slices.Contains(paths, f.Name) && f.Value.String() != f.DefValue:
			o.Configuration[f.Name] = f.Value.String()
		}
	})
	o.Kernel, err = kernel()
	if err != nil {
		return o, err
	}
	if o.Machine, err = machine(); err != nil {
		return o, err
	}
	o.Hypervisor, _ = command("systemd-detect-virt", "--vm") // also fails if the answer is "none"
	o.Emulated, o.Box = o.Hypervisor == "qemu", os.Getenv("EBB_BOX")
	if o.Commit, err = command("git", "rev-parse", "HEAD"); err != nil {
		if ok {
			o.Commit, o.Dirty = built(info.Settings)
		}
		if o.Commit == "" {
			return o, err
		}
		return o, nil
	}
	o.Made.Sources, o.Dirty, err = SourcesOf(o.Made.Packages)
	return o, err
}

// built returns the commit that a program was built from, or "" if the build recorded none.
func built(settings []debug.BuildSetting) (commit string, dirty bool) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	return commit, dirty
}

// source matches the files that can change figures: no texts. [SourcesOf] also skips tests.
var source = regexp.MustCompile(`(\.(go|c|h|o|s)|go\.(mod|sum)|deploy/manifests/.*\.yaml)$`)

// SourcesOf returns a hash of the source files of packages and of their dependencies in this
// module, as of HEAD. It includes the manifests and the go.mod files of the programs that are
// measured beside ebb. dirty reports whether the working tree has other versions of these files.
func SourcesOf(packages []string) (hash string, dirty bool, err error) {
	list, err := command("go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}"}, packages...)...)
	if err != nil {
		return "", false, err
	}
	top, err := command("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", false, err
	}
	wanted := map[string]bool{".": true, "tools/containerd": true, "tools/peers/etcd": true, "tools/peers/kubernetes": true, "deploy/manifests": true, "deploy/manifests/controller": true, "deploy/manifests/enforce": true}
	for dir := range strings.Lines(list) {
		rel, err := filepath.Rel(top, strings.TrimSpace(dir))
		if err != nil {
			return "", false, err
		}
		wanted[rel] = true
	}
	matters := func(file string) bool {
		return wanted[filepath.Dir(file)] && source.MatchString(file) && !strings.HasSuffix(file, "_test.go")
	}
	tree, err := command("git", "-C", top, "ls-tree", "-r", "--full-tree", "HEAD")
	if err != nil {
		return "", false, err
	}
	sum := sha256.New()
	for line := range strings.Lines(tree) {
		line = strings.TrimSpace(line)
		if _, file, _ := strings.Cut(line, "\t"); matters(file) {
			fmt.Fprintln(sum, line)
		}
	}
	changed, err := command("git", "-C", top, "status", "--porcelain", "--no-renames", "-uall")
	for line := range strings.Lines(changed) {
		dirty = dirty || matters(line[min(len(line), 3):len(strings.TrimRight(line, "\n"))])
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], dirty, err
}

func kernel() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("read the kernel's version: %w", err)
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

func machine() (string, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return "", err
	}
	cpus, err1 := fs.CPUInfo()
	memory, err2 := fs.Meminfo()
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	model := runtime.GOARCH
	if len(cpus) > 0 && cpus[0].ModelName != "" {
		model = cpus[0].ModelName
	}
	gib := 0.0
	if memory.MemTotal != nil {
		gib = float64(*memory.MemTotal) / (1 << 20)
	}
	return fmt.Sprintf("%d CPUs (%s), %.0f GiB", runtime.NumCPU(), model, gib), nil
}

// versions returns the version of Go, the versions that go.mod files require of the programs built
// for benchmarks, and the version of Debian's containerd if it is installed.
func versions() map[string]string {
	all := map[string]string{"go": runtime.Version()}
	for name, module := range map[string][2]string{
		"kubernetes": {"tools/peers/kubernetes", "k8s.io/kubernetes"},
		"etcd":       {"tools/peers/etcd", "go.etcd.io/etcd/server/v3"},
		"containerd": {"tools/containerd", "github.com/containerd/containerd/v2"},
	} {
		text, _ := os.ReadFile(filepath.Join(module[0], "go.mod"))
		if found := regexp.MustCompile(`(?m)\s` + regexp.QuoteMeta(module[1]) + ` (v\S+)`).FindSubmatch(text); found != nil {
			all[name] = string(found[1])
		}
	}
	if v, err := command("dpkg-query", "-W", "-f", "${Version}", "containerd"); err == nil {
		all["containerd of Debian"] = v
	}
	return all
}

func command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Older lists the results that predate origins or do not exist yet. Their benchmarks have changed
// since. So their sections in RESULTS.md stay as they were written, and pages show "to be measured"
// for their missing figures. Remove a name after a new run: the list should become empty.
var Older = []string{
	"account", "images", "pods", "shapes", "size", "soak-cluster",
}

// OriginOf returns the origin in dir/NAME.json, or nil if the file has none.
func OriginOf(dir, name string) (*Origin, error) {
	var file struct{ Origin *Origin }
	err := read(dir, name, &file)
	return file.Origin, err
}

// withOrigin inserts the origin before the figures, which must be a JSON object.
func withOrigin(o Origin, figures []byte) ([]byte, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if len(figures) < 2 || figures[0] != '{' {
		return nil, errors.New("figures are not an object")
	}
	between := ","
	if figures[1] == '}' {
		between = ""
	}
	return slices.Concat([]byte(`{"origin":`), text, []byte(between), figures[1:]), nil
}
