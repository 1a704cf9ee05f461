package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is a running process held by a pidfd, which never comes to mean
// another process as a pid may.
type process struct {
	pid int
	fd  int
}

// killAll ends every process of the node: containerd, its shims, runc, and all
// that runs in the node's cgroups. It looks again until there is none, since
// what is being killed may have been forking.
func killAll(ctx context.Context, l layout) error {
	for {
		procs, err := processesOf(l)
		if err != nil {
			return err
		}
		if len(procs) == 0 {
			return nil
		}
		for _, p := range procs {
			// ESRCH: ended by itself.
			if err := unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
				return errors.Join(fmt.Errorf("kill process %d: %w", p.pid, err), closeAll(procs))
			}
		}
		for _, p := range procs {
			if err := p.wait(ctx); err != nil {
				return errors.Join(fmt.Errorf("wait for process %d: %w", p.pid, err), closeAll(procs))
			}
		}
		if err := closeAll(procs); err != nil {
			return err
		}
	}
}

// processesOf finds the living processes of the node and opens a pidfd on each.
func processesOf(l layout) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var procs []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !belongs(l, pid) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open process %d: %w", pid, err), closeAll(procs))
		}
		// Asked again, now that the pid cannot be given to another.
		if !belongs(l, pid) {
			unix.Close(fd)
			continue
		}
		procs = append(procs, process{pid, fd})
	}
	return procs, nil
}

// belongs tells whether a pid is now a living process of the node.
func belongs(l layout, pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil || isZombie(string(stat)) {
		return false
	}
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return false
	}
	cgroups, err := os.ReadFile(dir + "/cgroup")
	if err != nil {
		return false
	}
	return runsFor(l, strings.Split(string(cmdline), "\x00")) || livesIn(l.cgroup(), string(cgroups))
}

// ours matches the programs that a node runs.
var ours = regexp.MustCompile(`^(runc|containerd|containerd-shim.*|mkfs\..*)$`)

// runsFor recognises a program of the node by its name and by a path of the
// node among its arguments. Other programs may bear one too (a person's ctr or
// editor) and are not the node's.
func runsFor(l layout, argv []string) bool {
	if !ours.MatchString(filepath.Base(argv[0])) {
		return false
	}
	return slices.ContainsFunc(argv[1:], func(arg string) bool {
		return strings.HasPrefix(arg, string(l)+"/")
	})
}

// livesIn reads /proc/PID/cgroup: lines of "hierarchy:controllers:path".
func livesIn(cgroup, lines string) bool {
	for line := range strings.Lines(lines) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) == 3 && (fields[2] == cgroup || strings.HasPrefix(fields[2], cgroup+"/")) {
			return true
		}
	}
	return false
}

// isZombie reads the state in /proc/PID/stat, which follows the command's name
// in parentheses; the name may contain parentheses of its own.
func isZombie(stat string) bool {
	i := strings.LastIndexByte(stat, ')')
	return i < 0 || i+2 >= len(stat) || stat[i+2] == 'Z' || stat[i+2] == 'X'
}

// wait returns once the process has ended; a pidfd is readable from then on.
func (p process) wait(ctx context.Context) error {
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		// A bounded poll, only so that a cancelled context is noticed.
		n, err := unix.Poll(fds, int((100 * time.Millisecond).Milliseconds()))
		if err != nil && err != unix.EINTR {
			return err
		}
		if n > 0 {
			return nil
		}
	}
	return ctx.Err()
}

func closeAll(procs []process) error {
	var errs []error
	for _, p := range procs {
		errs = append(errs, unix.Close(p.fd))
	}
	return errors.Join(errs...)
}
