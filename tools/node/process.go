package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"

	"github.com/ebb-agent/ebb/tools/busy"
)

// killAll kills every process of the node: containerd, its shims, runc, and all
// processes in the node's cgroups. It repeats until there is none, because a process
// may fork while it is being killed.
func killAll(ctx context.Context, l layout) error {
	return busy.Retry(ctx, errAlive, func() error {
		pids, err := processesOf(l)
		for _, pid := range pids {
			err = errors.Join(err, end(l, pid))
		}
		return err
	})
}

// processesOf finds the living processes of the node.
func processesOf(l layout) (pids []int, err error) {
	procs, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, p := range procs {
		if belongs(l, p.PID) {
			pids = append(pids, p.PID)
		}
	}
	return pids, nil
}

var errAlive = errors.New("a process of the node is there")

// end kills a process if it still belongs to the node, and returns errAlive: the
// process ends a moment later.
func end(l layout, pid int) error {
	// A pidfd, which never refers to another process; a PID can be reused.
	p, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer p.Release()
	if !belongs(l, pid) {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return fmt.Errorf("process %d: %w", pid, errAlive)
}

// belongs reports whether a PID is now a living process of the node. A process that
// cannot be read has just ended.
func belongs(l layout, pid int) bool {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	stat, err1 := p.Stat()
	argv, err2 := p.CmdLine()
	cgroups, err3 := p.Cgroups()
	if errors.Join(err1, err2, err3) != nil || stat.State == "Z" || stat.State == "X" {
		return false
	}
	return runsFor(l, argv) || slices.ContainsFunc(cgroups, func(c procfs.Cgroup) bool {
		return c.Path == l.cgroup() || strings.HasPrefix(c.Path, l.cgroup()+"/")
	})
}

// ours matches the programs that a node runs.
var ours = regexp.MustCompile(`^(runc|containerd|containerd-shim.*|mkfs\..*)$`)

// runsFor recognises a program of the node by its name and by a path of the node among
// its arguments. Other programs with such a path (a person's ctr or editor) are not the
// node's.
func runsFor(l layout, argv []string) bool {
	if len(argv) == 0 || !ours.MatchString(filepath.Base(argv[0])) {
		return false
	}
	return slices.ContainsFunc(argv[1:], func(arg string) bool {
		return strings.HasPrefix(arg, string(l)+"/")
	})
}
