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

// maxCommandLine bounds how many bytes of a command line are used. The kernel allows megabytes; a
// kubelet has a kilobyte or two.
const maxCommandLine = 64 << 10

// Process is a running kubelet.
type Process struct {
	PID  int
	Args []string // without the program's name

	// Within is the program that the kubelet is a part of, such as "k3s". The command line is then
	// not a kubelet's.
	Within string
	// Truncated means that the command line is longer than maxCommandLine.
	Truncated bool
	// Changed are the configuration files that were changed after the process started, so it does
	// not run with their present content. Settings sets it.
	Changed []string

	dir  string // /proc/PID, where proc is mounted
	proc procfs.Proc
}

// hosts are programs with a kubelet inside, by the name of the executable.
var hosts = map[string]string{"k3s": "k3s", "kubelite": "MicroK8s", "k0s": "k0s"}

// errOther means that a process is of no interest here.
var errOther = errors.New("not a kubelet that root runs")

// ErrHidden means that a process has more capabilities than this one.
var ErrHidden = errors.New("needs root and CAP_SYS_PTRACE")

// Find returns the kubelets among the processes of proc, by the name of their executable. Only
// processes of root count, because any user can give a program that name. pid selects one process;
// 0 selects all. With 0, Find can return an error beside the kubelets: a process calls itself
// kubelet, and this process may not inspect it. With a PID, the error says why that process is not
// returned.
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

// FindDaemon returns the PID of a process of root that executes a file of this name without a
// subcommand; 0 if there is none.
func FindDaemon(proc, name string) int {
	all, _ := processes(proc) // what cannot be seen is not found
	for _, p := range all {
		if program, err := p.program(); err != nil || program != name || !p.ofRoot() {
			continue
		}
		if args, err := p.proc.CmdLine(); err == nil && (len(args) < 2 || strings.HasPrefix(args[1], "-")) {
			return p.PID
		}
	}
	return 0
}

// processes lists all processes, sorted by PID.
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
	// k0s and k3s have many other commands.
	many := p.Within == "k0s" || p.Within == "k3s"
	if many && (len(p.Args) == 0 || !slices.Contains([]string{"server", "agent", "worker", "controller"}, p.Args[0])) {
		return errOther
	}
	return nil
}

func (p *Process) file(name string) string { return filepath.Join(p.dir, name) }

// program returns the name of the file that the process executes. During the upgrade of a package,
// the file of a running program may be deleted.
func (p *Process) program() (string, error) {
	exe, err := p.proc.Executable()
	return path.Base(strings.TrimSuffix(exe, " (deleted)")), err
}

// ofRoot reports whether the effective user of the process is root. The owner of the directory in
// proc does not show that: it is root for each process that hides its memory.
func (p *Process) ofRoot() bool {
	status, err := p.proc.NewStatus()
	return err == nil && status.UIDs[1] == 0
}

// seemsOne reports whether a process of root calls itself kubelet. It is for processes of which
// nothing better can be read, and only good for a hint.
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

// ConfigFile returns the file that --config names; "" if there is none.
func (p *Process) ConfigFile() string {
	flags, _ := p.flags() // those that can be read
	return clean(last(flags, "config"))
}

// Started returns when the process started, to within a second: the kernel reports when it booted
// in seconds.
func (p *Process) Started() (time.Time, error) {
	stat, err := p.proc.Stat()
	if err != nil {
		return time.Time{}, fmt.Errorf("process %d: %w", p.PID, err)
	}
	seconds, err := stat.StartTime()
	return time.UnixMilli(int64(seconds * 1000)), err
}
