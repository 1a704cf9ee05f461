package kubelet

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// fakeProc is a proc with processes that nobody could start: hostile ones.
type fakeProc struct {
	t   *testing.T
	dir string
}

func (p fakeProc) add(pid int, exe, cmdline string) string {
	p.t.Helper()
	dir := filepath.Join(p.dir, strconv.Itoa(pid))
	root := filepath.Join(dir, "root")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "etc"), 0o755), os.Symlink(exe, filepath.Join(dir, "exe")), os.Symlink("/etc", filepath.Join(dir, "cwd")),
		os.WriteFile(filepath.Join(dir, "cmdline"), []byte(cmdline), 0o600),
		os.WriteFile(filepath.Join(dir, "status"), []byte("Uid:\t0\t0\t0\t0\n"), 0o600),
	} {
		if err != nil {
			p.t.Fatal(err)
		}
	}
	return root
}

// inspect reads one process.
func inspect(proc string, pid int) (Process, error) {
	found, err := Find(proc, pid)
	if err != nil {
		return Process{}, err
	}
	return found[0], nil
}

func (p fakeProc) write(path, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func newFakeProc(t *testing.T) fakeProc {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root's processes count")
	}
	return fakeProc{t, t.TempDir()}
}

const envKubelet = "EBB_TEST_KUBELET"

// init makes this program a kubelet that does nothing.
func init() {
	if os.Getenv(envKubelet) != "" {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		os.Exit(0)
	}
}

// TestFakeProcConforms: of a process that anybody can start, both say the same.
func TestFakeProcConforms(t *testing.T) {
	p := newFakeProc(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "kubelet")
	if err := os.WriteFile(program, data, 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"kubelet", "--config=/etc/k.yaml", "", "--v=2"}
	cmd := exec.Cmd{Path: program, Args: args, Dir: "/etc", Env: append(os.Environ(), envKubelet+"=1")}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), cmd.Wait() }()
	pid := cmd.Process.Pid
	p.add(pid, program, strings.Join(args, "\x00")+"\x00")
	read := func(proc string) map[string]string {
		t.Helper()
		found, err := inspect(proc, pid)
		if err != nil {
			t.Fatal(err)
		}
		facts := map[string]string{"args": strings.Join(found.Args, "|"), "within": found.Within, "config": found.ConfigFile()}
		for _, link := range []string{"exe", "cwd"} {
			if facts[link], err = os.Readlink(found.file(link)); err != nil {
				t.Fatal(err)
			}
		}
		line, err1 := os.ReadFile(found.file("cmdline"))
		status, err2 := os.ReadFile(found.file("status"))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		facts["cmdline"] = string(line)
		for one := range strings.Lines(string(status)) {
			if strings.HasPrefix(one, "Uid:") {
				facts["status"] = one
			}
		}
		return facts
	}
	if diff := cmp.Diff(read("/proc"), read(p.dir)); diff != "" {
		t.Errorf("(-proc +fake):\n%s", diff)
	}
}

func TestFind(t *testing.T) {
	p := newFakeProc(t)
	p.add(30, "/usr/bin/kubelet", "kubelet\x00--config=/etc/k.yaml\x00")
	p.add(4, "/opt/kubelet (deleted)", "/opt/kubelet\x00")
	p.add(5, "/usr/bin/bash", "kubelet\x00--config=/evil\x00")
	p.add(6, "/usr/local/bin/k3s", "/usr/local/bin/k3s server\x00server\x00")
	p.add(7, "/usr/local/bin/k3s", "containerd\x00-c\x00")
	p.add(8, "/usr/bin/kubelet", strings.Repeat("x\x00", maxCommandLine))
	p.add(9, "/home/mallory/kubelet", "kubelet\x00--image-gc-high-threshold=100\x00")
	p.write(filepath.Join(p.dir, "9/status"), "Uid:\t1000\t1000\t1000\t1000\n")
	p.add(3, "/usr/bin/ebb-agent", "ebb-agent\x00unload\x00--stay\x00")
	p.add(10, "/usr/bin/ebb-agent", "ebb-agent\x00--config\x00/etc/ebb/agent.yaml\x00")
	if err := os.MkdirAll(filepath.Join(p.dir, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	found, err := Find(p.dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]string{}
	for _, f := range found {
		got[f.PID] = f.Within + "/" + strconv.FormatBool(f.Truncated) + "/" + f.ConfigFile()
	}
	want := map[int]string{4: "/false/", 6: "k3s/false/", 8: "/true/", 30: "/false//etc/k.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for pid, want := range map[int]error{5: errOther, 9: errOther, 99: fs.ErrNotExist} {
		if found, err := Find(p.dir, pid); !errors.Is(err, want) || len(found) > 0 {
			t.Errorf("process %d: %v, %+v", pid, err, found)
		}
	}
	if pid := FindDaemon(p.dir, "ebb-agent"); pid != 10 {
		t.Errorf("ebb-agent: %d", pid)
	}
	if pid := FindDaemon(p.dir, "nothing"); pid != 0 {
		t.Errorf("nothing: %d", pid)
	}
	if _, err := Find(filepath.Join(p.dir, "none"), 0); err == nil {
		t.Error("a proc that is not there was read")
	}
}

// TestFindWithoutRights: a kubelet that cannot be looked at is not "no kubelet".
func TestFindWithoutRights(t *testing.T) {
	newFakeProc(t) // root
	data, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "kubelet")
	if err := os.WriteFile(program, data, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	type result struct {
		found []Process
		err   error
	}
	results := make(chan result)
	go func() {
		// The thread ends with this goroutine: it stays nobody's.
		runtime.LockOSThread()
		keep := ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, 65534, keep); errno != 0 {
			results <- result{err: errno}
			return
		}
		var r result
		r.found, r.err = Find("/proc", 0)
		results <- r
	}()
	r := <-results
	if !errors.Is(r.err, ErrHidden) || len(r.found) > 0 {
		t.Errorf("found %+v, %v", r.found, r.err)
	}
	found, err := Find("/proc", 0)
	if err != nil || !slices.ContainsFunc(found, func(p Process) bool { return p.PID == cmd.Process.Pid }) {
		t.Errorf("as root: found %+v, %v", found, err)
	}
}

// TestFilesStayBelowTheRoot: the kubelet's paths are those of its own root, and
// its links cannot lead out of it.
func TestFilesStayBelowTheRoot(t *testing.T) {
	p := newFakeProc(t)
	root := p.add(1, "/usr/bin/kubelet", "kubelet\x00--config=k.yaml\x00--config-dir\x00/etc/conf.d\x00")
	outside := filepath.Join(p.dir, "outside.yaml")
	p.write(outside, head+"imageGCHighThresholdPercent: 1\n")
	p.write(filepath.Join(root, "real.yaml"), head+"imageGCHighThresholdPercent: 77\n")
	if err := os.Symlink("/real.yaml", filepath.Join(root, "etc/k.yaml")); err != nil { // from the working directory, /etc
		t.Fatal(err)
	}
	p.write(filepath.Join(root, "etc/conf.d/10-a.conf"), head+"imageGCLowThresholdPercent: 66\n")
	p.write(filepath.Join(root, "etc/conf.d/20/b.conf"), head+"imageGCLowThresholdPercent: 55\n")
	p.write(filepath.Join(root, "etc/conf.d/30.yaml"), "not read")
	process, err := inspect(p.dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := process.Settings()
	if err != nil {
		t.Fatal(err)
	}
	if s.ImageGCHighThresholdPercent != (Value[int]{77, "k.yaml"}) || s.ImageGCLowThresholdPercent != (Value[int]{55, "/etc/conf.d/20/b.conf"}) {
		t.Errorf("high %v, low %v", s.ImageGCHighThresholdPercent, s.ImageGCLowThresholdPercent)
	}
	up := filepath.Join(root, "etc/conf.d/40.conf")
	if err := os.Symlink("../../../../outside.yaml", up); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Settings(); err == nil {
		t.Error("a link led out of the kubelet's root")
	}
}

func TestSettingsSayWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		cmdline string
		files   map[string]string
		want    string
	}{
		"no file":          {"kubelet\x00--config=/etc/none\x00", nil, "--config /etc/none"},
		"no directory":     {"kubelet\x00--config-dir=/etc/none\x00", nil, "--config-dir /etc/none"},
		"a bad drop-in":    {"kubelet\x00--config-dir=/etc/d\x00", map[string]string{"etc/d/1.conf": "kind: Pod"}, "/etc/d/1.conf"},
		"a bad flag":       {"kubelet\x00--image-gc-high-threshold=x\x00", nil, "--image-gc-high-threshold"},
		"a hostile path":   {"kubelet\x00--config=/etc/\x1b[2J\nx\x00", nil, "--config /etc/\ufffd[2J x"},
		"a directory":      {"kubelet\x00--config=/etc\x00", nil, "not a regular file"},
		"a long line":      {"kubelet\x00" + strings.Repeat("-", maxCommandLine), nil, "command line: longer"},
		"a deep directory": {"kubelet\x00--config-dir=/etc/d\x00", map[string]string{"etc/d/" + strings.Repeat("d/", maxDepth) + "1.conf": head}, "deeper"},
		"a program within": {"k3s\x00server\x00", nil, "part of another program"},
		"a threshold list": {"kubelet\x00--eviction-hard=imagefs.available\x00", nil, "--eviction-hard"},
		"a path elsewhere": {"kubelet\x00--config=/proc\x00", nil, "--config /proc"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakeProc(t)
			exe := "/usr/bin/kubelet"
			if strings.HasPrefix(c.cmdline, "k3s") {
				exe = "/bin/k3s"
			}
			root := p.add(1, exe, c.cmdline)
			for file, text := range c.files {
				p.write(filepath.Join(root, file), text)
			}
			process, err := inspect(p.dir, 1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := process.Settings(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestStarted(t *testing.T) {
	const rest = "S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 "
	p := newFakeProc(t)
	p.add(7, "/usr/bin/kubelet", "kubelet\x00")
	p.write(filepath.Join(p.dir, "stat"), "btime 1000\n")
	for stat, want := range map[string]time.Duration{
		"7 (kubelet) " + rest + "250 1":    2500 * time.Millisecond,
		"7 (a) b (c) d) " + rest + "100 1": time.Second,
		"7 (kubelet) S 1":                  -1,
		"":                                 -1,
		"7 (x) " + rest + "99999999999999999999 1": -1,
		"7 (x) " + rest + "-5 1":                   -1,
	} {
		p.write(filepath.Join(p.dir, "7/stat"), stat+strings.Repeat(" 0", 30)+"\n")
		process, err := inspect(p.dir, 7)
		if err != nil {
			t.Fatal(err)
		}
		got, err := process.Started()
		if (err != nil) != (want < 0) || err == nil && got.Sub(time.Unix(1000, 0)) != want {
			t.Errorf("%q: %v, %v", stat, got, err)
		}
	}
	all, err := processes("/proc")
	if err != nil {
		t.Fatal(err)
	}
	self := all[slices.IndexFunc(all, func(p Process) bool { return p.PID == os.Getpid() })]
	started, err := self.Started()
	if age := time.Since(started); err != nil || age < -time.Second || age > time.Hour {
		t.Errorf("this process began %v ago: %v", age, err)
	}
}

func TestReconcile(t *testing.T) {
	files, asked := Defaults(), Defaults()
	files.ImageGCHighThresholdPercent = Value[int]{100, "file"}
	files.ImageGCLowThresholdPercent = Value[int]{70, "file"}
	asked.ImageGCLowThresholdPercent = Value[int]{70, FromConfigz}
	files.EvictionHard = map[string]Value[string]{"a": {"1%", "file"}, "b": {"2%", "file"}, "c": {"3%", "file"}}
	asked.EvictionHard = map[string]Value[string]{"a": {"1%", FromConfigz}, "b": {"4%", FromConfigz}, "d": {"5%", FromConfigz}}
	s := files
	different := s.Reconcile(asked)
	want := []string{"imageGCHighThresholdPercent is 85, not 100", "evictionHard c is not set, not 3%", "evictionHard b is 4%, not 2%", "evictionHard d is 5%, not unset"}
	if diff := cmp.Diff(want, different); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "1% file", "b": "4% /configz", "d": "5% /configz"}, thresholds(s.EvictionHard)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.ImageGCHighThresholdPercent.V != 85 || s.ImageGCLowThresholdPercent.From != "file" {
		t.Errorf("%+v", s)
	}
}
