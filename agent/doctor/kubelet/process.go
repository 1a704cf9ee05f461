package kubelet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCommandLine bounds what is read of a command line. The kernel allows
// megabytes; a kubelet has a kilobyte or two.
const maxCommandLine = 64 << 10

// Process is a running kubelet.
type Process struct {
	PID  int      `json:"pid"`
	Args []string `json:"-"` // without the program's name

	// Within is the program that the kubelet is a part of, as "k3s". Its command
	// line is not a kubelet's.
	Within string `json:"within,omitempty"`
	// Truncated: the command line is longer than what was read.
	Truncated bool `json:"truncated,omitempty"`

	proc string // where proc is mounted
}

// hosts are programs with a kubelet inside, by the name of the executable.
var hosts = map[string]string{"k3s": "k3s", "kubelite": "MicroK8s", "k0s": "k0s"}

// Find looks for kubelets among the processes of proc, by the name of what they
// execute. Only root's count: anybody can give a program that name. The error may
// come beside what was found: of a process that seems to be one, and is closed
// to this process.
func Find(proc string) ([]Process, error) {
	pids, err := pids(proc)
	if err != nil {
		return nil, fmt.Errorf("find the kubelet: %w", err)
	}
	var found []Process
	var hidden error
	for _, pid := range pids {
		p, err := Look(proc, pid)
		switch {
		case err == nil:
			found = append(found, p)
		case errors.Is(err, fs.ErrPermission) && p.seemsOne():
			hidden = fmt.Errorf("process %d calls itself kubelet, and cannot be looked at: %w", pid, ErrHidden)
		}
	}
	return found, hidden
}

// ErrHidden is of a process with more capabilities than this one.
var ErrHidden = errors.New("needs root and CAP_SYS_PTRACE")

// seemsOne goes by what root's process calls itself, where nothing better can be
// read. It is good for a hint only.
func (p *Process) seemsOne() bool {
	comm, err := readAtMost(p.file("comm"), 64)
	root, rootErr := p.rootRuns()
	return err == nil && rootErr == nil && root && strings.TrimSpace(string(comm)) == "kubelet"
}

// FindProgram returns a process of root's that executes a file of this name; 0
// if there is none.
func FindProgram(proc, name string) int {
	pids, err := pids(proc)
	if err != nil {
		return 0
	}
	for _, pid := range pids {
		p := Process{PID: pid, proc: proc}
		if exe, err := p.program(); err != nil || exe != name {
			continue
		}
		if root, err := p.rootRuns(); err == nil && root {
			return pid
		}
	}
	return 0
}

// pids lists all processes, in order.
func pids(proc string) ([]int, error) {
	dir, err := os.Open(proc)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var list []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	slices.Sort(list)
	return list, nil
}

// errOther: a process that is none of ours to look at.
var errOther = errors.New("not a kubelet that root runs")

// Look reads one process.
func Look(proc string, pid int) (Process, error) {
	p := Process{PID: pid, proc: proc}
	fail := func(err error) (Process, error) {
		return Process{PID: pid, proc: proc}, fmt.Errorf("process %d: %w", pid, err)
	}
	name, err := p.program()
	if err != nil {
		return fail(err)
	}
	p.Within = hosts[name]
	if name != "kubelet" && p.Within == "" {
		return fail(errOther)
	}
	if root, err := p.rootRuns(); err != nil || !root {
		return fail(errors.Join(errOther, err))
	}
	line, err := readAtMost(p.file("cmdline"), maxCommandLine+1)
	if err != nil {
		return fail(err)
	}
	if p.Truncated = len(line) > maxCommandLine; p.Truncated {
		line = line[:maxCommandLine]
	}
	if args := splitCommandLine(line); len(args) > 0 {
		p.Args = args[1:]
	}
	if p.Within == "k0s" || p.Within == "k3s" {
		// These programs do much else under the same name.
		if len(p.Args) == 0 || !slices.Contains([]string{"server", "agent", "worker", "controller"}, p.Args[0]) {
			return fail(errOther)
		}
	}
	return p, nil
}

func (p *Process) file(name string) string {
	return filepath.Join(p.proc, strconv.Itoa(p.PID), name)
}

// program is the name of the file that the process executes. While a package is
// upgraded the file behind a running program is gone.
func (p *Process) program() (string, error) {
	exe, err := os.Readlink(p.file("exe"))
	return path.Base(strings.TrimSuffix(exe, " (deleted)")), err
}

func (p *Process) rootRuns() (bool, error) {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(p.proc, strconv.Itoa(p.PID)), &st); err != nil {
		return false, err
	}
	return st.Uid == 0, nil
}

// splitCommandLine splits at NUL bytes; the last argument ends with one.
func splitCommandLine(line []byte) []string {
	line = bytes.TrimSuffix(line, []byte{0})
	if len(line) == 0 {
		return nil
	}
	return strings.Split(string(line), "\x00")
}

func readAtMost(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// Flags are those of the command line.
func (p *Process) Flags() []Flag {
	if p.Within != "" {
		return nil
	}
	return ParseFlags(p.Args)
}

// SameMounts tells whether the kubelet sees the files that this process sees.
func (p *Process) SameMounts() bool {
	theirs, err := os.Readlink(p.file("ns/mnt"))
	ours, ourErr := os.Readlink(filepath.Join(p.proc, "self/ns/mnt"))
	if err != nil || ourErr != nil || theirs != ours {
		return false
	}
	root, err := os.Readlink(p.file("root"))
	return err == nil && root == "/"
}

// MountInfo is the file that tells of the mounts the kubelet sees.
func (p *Process) MountInfo() string { return p.file("mountinfo") }

// Open opens a path as the kubelet would: from its root, in its mounts, and with
// links that stay there. O_PATH descriptors will do for directories.
func (p *Process) Open(name string, flags int) (*os.File, error) {
	if !filepath.IsAbs(name) {
		cwd, err := os.Readlink(p.file("cwd"))
		if err != nil {
			return nil, err
		}
		name = filepath.Join(cwd, name)
	}
	root, err := unix.Open(p.file("root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p.file("root"), Err: err}
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, name, &unix.OpenHow{
		Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// ReadFile reads a configuration file of the kubelet's.
func (p *Process) ReadFile(name string) ([]byte, error) {
	// A pipe would keep us waiting; of a file O_NONBLOCK changes nothing.
	f, err := p.Open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readConfiguration(f)
}

// ReadFile reads a configuration file of this process's own view.
func ReadFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readConfiguration(f)
}

func readConfiguration(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", f.Name())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", f.Name(), maxFileBytes)
	}
	return data, nil
}

// ConfigFile is what --config names; "" if it is not there.
func (p *Process) ConfigFile() string {
	if p.Within != "" {
		return ""
	}
	return clean(last(p.Flags(), "config"))
}
