package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// maxCommandLine bounds what is taken of a command line. The kernel allows
// megabytes; a kubelet has a kilobyte or two.
const maxCommandLine = 64 << 10

// Process is a running kubelet.
type Process struct {
	PID  int
	Args []string // without the program's name

	// Within is the program that the kubelet is a part of, as "k3s". Its command
	// line is not a kubelet's.
	Within string
	// Truncated: the command line is longer than what was taken.
	Truncated bool
	// Changed are the files of its configuration that were changed after it began: it does
	// not run with what they say now. Known from Settings on.
	Changed []string

	dir  string // /proc/PID, where proc is mounted
	proc procfs.Proc
}

// hosts are programs with a kubelet inside, by the name of the executable.
var hosts = map[string]string{"k3s": "k3s", "kubelite": "MicroK8s", "k0s": "k0s"}

// errOther: a process that is none of ours to look at.
var errOther = errors.New("not a kubelet that root runs")

// ErrHidden is of a process with more capabilities than this one.
var ErrHidden = errors.New("needs root and CAP_SYS_PTRACE")

// Find looks for kubelets among the processes of proc, by the name of what they
// execute. Only root's count: anybody can give a program that name. The error may
// come beside what was found: of a process that seems to be one, and is closed
// to this process, or of the one that was asked for by its PID; 0 asks for all.
func Find(proc string, pid int) ([]Process, error) {
	all, err := processes(proc)
	if err != nil {
		return nil, fmt.Errorf("find the kubelet: %w", err)
	}
	var found []Process
	var hidden error
	for _, p := range all {
		if pid != 0 && p.PID != pid {
			continue
		}
		err := p.inspect()
		switch {
		case err == nil:
			found = append(found, p)
		case pid != 0:
			return nil, fmt.Errorf("process %d: %w", pid, err)
		case errors.Is(err, fs.ErrPermission) && p.seemsOne():
			hidden = fmt.Errorf("process %d calls itself kubelet, and cannot be looked at: %w", p.PID, ErrHidden)
		}
	}
	if pid != 0 && len(found) == 0 {
		return nil, fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	return found, hidden
}

// FindProgram returns a process of root's that executes a file of this name; 0
// if there is none.
func FindProgram(proc, name string) int {
	all, _ := processes(proc) // what cannot be seen is not found
	for _, p := range all {
		if program, err := p.program(); err == nil && program == name && p.ofRoot() {
			return p.PID
		}
	}
	return 0
}

// processes lists all, in order.
func processes(proc string) ([]Process, error) {
	all, err := procfs.NewFS(proc)
	if err != nil {
		return nil, err
	}
	procs, err := all.AllProcs()
	if err != nil {
		return nil, err
	}
	sort.Sort(procs)
	var list []Process
	for _, p := range procs {
		list = append(list, Process{PID: p.PID, dir: filepath.Join(proc, strconv.Itoa(p.PID)), proc: p})
	}
	return list, nil
}

func (p *Process) inspect() error {
	name, err := p.program()
	if err != nil {
		return err
	}
	p.Within = hosts[name]
	if name != "kubelet" && p.Within == "" || !p.ofRoot() {
		return errOther
	}
	line, err := os.ReadFile(p.file("cmdline"))
	if err != nil {
		return err
	}
	p.Truncated = len(line) > maxCommandLine
	if args := splitCommandLine(line[:min(len(line), maxCommandLine)]); len(args) > 0 {
		p.Args = args[1:]
	}
	// These programs do much else under the same name.
	many := p.Within == "k0s" || p.Within == "k3s"
	if many && (len(p.Args) == 0 || !slices.Contains([]string{"server", "agent", "worker", "controller"}, p.Args[0])) {
		return errOther
	}
	return nil
}

func (p *Process) file(name string) string { return filepath.Join(p.dir, name) }

// program is the name of the file that the process executes. While a package is
// upgraded the file behind a running program is gone.
func (p *Process) program() (string, error) {
	exe, err := p.proc.Executable()
	return path.Base(strings.TrimSuffix(exe, " (deleted)")), err
}

// ofRoot goes by the effective user: who owns the directory in proc is root for each
// process that hides its memory.
func (p *Process) ofRoot() bool {
	status, err := p.proc.NewStatus()
	return err == nil && status.UIDs[1] == 0
}

// seemsOne goes by what root's process calls itself, where nothing better can be
// read. It is good for a hint only.
func (p *Process) seemsOne() bool {
	comm, err := p.proc.Comm()
	return err == nil && comm == "kubelet" && p.ofRoot()
}

// splitCommandLine splits at NUL bytes; the last argument ends with one.
func splitCommandLine(line []byte) []string {
	if text := strings.TrimSuffix(string(line), "\x00"); text != "" {
		return strings.Split(text, "\x00")
	}
	return nil
}

func (p *Process) flags() ([]flag, error) {
	if p.Within != "" {
		return nil, nil
	}
	flags, err := parseFlags(p.Args)
	switch {
	case p.Truncated:
		return flags, fmt.Errorf("command line: longer than %d bytes", maxCommandLine)
	case err != nil:
		return flags, errors.New("command line: " + clean(err.Error()))
	}
	return flags, nil
}

// ConfigFile is what --config names; "" if it is not there.
func (p *Process) ConfigFile() string {
	flags, _ := p.flags() // as far as they can be read
	return clean(last(flags, "config"))
}

// Started is when the process began, to within a second: its clock is the kernel's.
func (p *Process) Started() (time.Time, error) {
	stat, err := p.proc.Stat()
	if err != nil {
		return time.Time{}, fmt.Errorf("process %d: %w", p.PID, err)
	}
	seconds, err := stat.StartTime()
	return time.UnixMilli(int64(seconds * 1000)), err
}
