package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prometheus/procfs"

	"github.com/ebb-agent/ebb/tools/loopfs"
	"github.com/ebb-agent/ebb/tools/process"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// Writes near the watermark have nearSize bytes, and the watermark is nearBlocks away. Each CPU
// keeps back up to 32 blocks of either counter (percpu_counter_batch).
const (
	nearSize   = 128 << 10
	nearBlocks = 64
)

// workload is something that a node does all day.
type workload struct {
	name  string // of its figures
	near  bool   // a filesystem is near its watermark at the same time
	start func(b *fixture, cpu int) (*running, error)
}

var workloads = []workload{
	{"read", false, fio("--rw=read", "--bs=4k", "--size=64m", "--invalidate=0", "--time_based", "--runtime=1d")},
	{"open", false, inContainer("opens")},
	{"exec", false, inContainer("execs")},
	{"write", false, writesOf(mib, 128, func(b *fixture) *loopfs.FS { return b.disk })},
	// Near a watermark each block counts, and at the watermark the filesystem's counters are
	// summed over all CPUs for each.
	{"write_near", true, writesOf(mib, 128, func(b *fixture) *loopfs.FS { return b.disk })},
	{"write_xfs", false, writesOf(mib, 128, func(b *fixture) *loopfs.FS { return b.others[0] })},
	{"write_near_xfs", true, writesOf(mib, 128, func(b *fixture) *loopfs.FS { return b.others[0] })},
	{"write_btrfs", false, writesOf(mib, 128, func(b *fixture) *loopfs.FS { return b.others[1] })},
	{"write_near_btrfs", true, writesOf(mib, 128, func(b *fixture) *loopfs.FS { return b.others[1] })},
	{"write_near_threshold", true, writesOf(nearSize, 1, func(b *fixture) *loopfs.FS { return b.near })},
	// The file is a hole at first, so that every write takes a block.
	{"direct_write", false, fio("--rw=write", "--bs=4k", "--direct=1", "--size=16m", "--fallocate=truncate", "--loops=1000000", "--unlink_each_loop=1")},
}

// running is a workload's process. It is stopped except in the windows in which it is measured. So
// its counts do not change while they are read, and attaching and detaching programs disturbs
// nothing.
type running struct {
	cmd  *exec.Cmd
	read func() (spent, error)
	undo func()
}

// spent is what a workload did, from its start or in a window.
type spent struct {
	ops  uint64
	cpu  uint64 // nanoseconds
	wall time.Duration
}

// stop ends the process.
func (r *running) stop() {
	r.cmd.Process.Kill()
	r.cmd.Wait()
	if r.undo != nil {
		r.undo()
	}
}

// pause stops the process and returns once every thread is stopped.
func (r *running) pause() error {
	if err := r.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		return fmt.Errorf("stop workload: %w", err)
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(r.cmd.Process.Pid, &status, unix.WUNTRACED, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for workload: %w", err)
		}
		if !status.Stopped() {
			return fmt.Errorf("workload ended: exit %d, signal %d: %s", status.ExitStatus(), status.Signal(), r.cmd.Stderr)
		}
		return nil
	}
}

// window lets the workload run for a time and returns what it did.
func (r *running) window(d time.Duration) (w spent, err error) {
	before, err := r.read()
	if err != nil {
		return w, err
	}
	start := time.Now()
	if err := r.cmd.Process.Signal(unix.SIGCONT); err != nil {
		return w, fmt.Errorf("continue workload: %w", err)
	}
	time.Sleep(d)
	if err := r.pause(); err != nil {
		return w, err
	}
	w.wall = time.Since(start)
	after, err := r.read()
	if err != nil {
		return w, err
	}
	w.ops, w.cpu = after.ops-before.ops, after.cpu-before.cpu
	return w, nil
}

// fio runs one job of fio on a file of the disk. The operations are the system calls that the
// kernel counted, and the CPU time is the kernel's, to the nanosecond.
func fio(job ...string) func(*fixture, int) (*running, error) {
	return func(b *fixture, cpu int) (*running, error) {
		file := filepath.Join(b.disk.Dir, "fio")
		args := append([]string{"--name=job", "--filename=" + file, "--ioengine=psync", "--thread", "--gtod_reduce=1",
			"--cpus_allowed=" + fmt.Sprint(cpu), "--output=/dev/null"}, job...)
		cmd := exec.Command("fio", args...)
		r := &running{cmd: cmd, undo: func() { os.Remove(file) }}
		reads := strings.HasPrefix(job[0], "--rw=read")
		r.read = func() (spent, error) { return spentByProcess(cmd.Process.Pid, reads) }
		return r, r.begin(fioBegins)
	}
}

// spentByProcess returns what a process did. The process must be stopped: only then has the kernel
// added up the times of its threads (thread_group_cputime).
func spentByProcess(pid int, reads bool) (s spent, err error) {
	u, err1 := process.UsageOf(pid)
	p, err2 := procfs.NewProc(pid)
	if err := errors.Join(err1, err2); err != nil {
		return s, err
	}
	io, err := p.IO()
	s.cpu, s.ops = uint64(u.CPU), io.SyscW
	if reads {
		s.ops = io.SyscR
	}
	return s, err
}

// writesOf writes files of times writes, each of size bytes.
func writesOf(size, times int, on func(*fixture) *loopfs.FS) func(*fixture, int) (*running, error) {
	return func(b *fixture, cpu int) (*running, error) {
		file := filepath.Join(on(b).Dir, "writes")
		return startWorker(order{What: "writes", Path: file, Size: size, Times: times, CPU: cpu}, nil, "")
	}
}

// inContainer runs a worker whose root directory is the image.
func inContainer(what string) func(*fixture, int) (*running, error) {
	return func(b *fixture, cpu int) (*running, error) {
		return startWorker(order{What: what, CPU: cpu}, b.image.files, b.image.root)
	}
}

func startWorker(o order, files []string, root string) (*running, error) {
	argument, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	page, err := memory("tally", make([]byte, pageSize))
	if err != nil {
		return nil, err
	}
	defer page.Close()
	t, err := mapTally(int(page.Fd()))
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(files)
	if err != nil {
		return nil, err
	}
	names, err := memory("files", list)
	if err != nil {
		return nil, err
	}
	defer names.Close()
	program := "/proc/self/exe"
	if root != "" {
		program = "/bin/worker"
	}
	cmd := exec.Command(program, workerCommand, string(argument))
	cmd.ExtraFiles = []*os.File{page, names}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	r := &running{cmd: cmd, read: func() (spent, error) {
		return spent{ops: t.ops.Load(), cpu: t.cpu.Load()}, nil
	}}
	if o.Path != "" {
		r.undo = func() { os.Remove(o.Path) }
	}
	return r, r.begin(1)
}

// memory returns a file without a name that has this content.
func memory(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.WriteAt(content, 0)
	return f, err
}

// fioBegins is more system calls than fio makes before its first read or write
// of the job.
const fioBegins = 5000

// begin starts the process, waits until it has done this many operations, and leaves it stopped.
func (r *running) begin(ops uint64) error {
	var stderr strings.Builder
	r.cmd.Stderr = &stderr
	if r.cmd.SysProcAttr == nil {
		r.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	r.cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	if err := r.cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; {
		time.Sleep(100 * time.Millisecond)
		if err := r.pause(); err != nil {
			r.stop()
			return err
		}
		did, err := r.read()
		if err == nil && did.ops >= ops {
			return nil
		}
		if time.Now().After(deadline) {
			r.stop()
			return errors.Join(errors.New("the workload does not begin"), err)
		}
		if err := r.cmd.Process.Signal(unix.SIGCONT); err != nil {
			return err
		}
	}
}
