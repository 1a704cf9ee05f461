package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// workerCommand makes this program a worker. A worker repeats one operation until it is killed, and
// counts on a shared page how often it did that and what that took.
const workerCommand = "work"

// order is what a worker is to do. It is passed as an argument, because a container has nothing
// else.
type order struct {
	What  string   // opens, execs or writes
	Path  string   // writes: the file
	Size  int      // writes: of one
	Times int      // writes: before the file is removed
	Files []string `json:"-"` // opens: as a list in descriptor 4
	CPU   int
}

// tally is the shared page. The CPU time includes that of the kernel on behalf of the worker.
type tally struct {
	ops atomic.Uint64
	cpu atomic.Uint64 // nanoseconds
}

const pageSize = 4096

func mapTally(fd int) (*tally, error) {
	page, err := unix.Mmap(fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map tally: %w", err)
	}
	return (*tally)(unsafe.Pointer(unsafe.SliceData(page))), nil
}

// work does what the argument orders. It returns only with an error.
func work(argument string) error {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	var o order
	if err := json.Unmarshal([]byte(argument), &o); err != nil {
		return err
	}
	var one unix.CPUSet
	one.Set(o.CPU)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("pin to CPU: %w", err)
	}
	t, err := mapTally(3)
	if err != nil {
		return err
	}
	switch o.What {
	case "opens":
		if err := json.NewDecoder(os.NewFile(4, "files")).Decode(&o.Files); err != nil {
			return fmt.Errorf("list of files: %w", err)
		}
		return opens(t, o.Files)
	case "execs":
		return execs(t)
	case "writes":
		return writes(t, o)
	}
	return errors.New("no such work")
}

// cpuTime returns the CPU time of this thread, in nanoseconds.
func cpuTime() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // every kernel has it
	}
	return uint64(ts.Nano())
}

// opensAtATime is how many opens share two readings of the clock.
const opensAtATime = 256

// opens opens, reads and closes the files, one after the other, again and again. The Go runtime is
// not involved in between.
func opens(t *tally, files []string) error {
	names := make([]*byte, len(files))
	for i, f := range files {
		var err error
		if names[i], err = unix.BytePtrFromString(f); err != nil {
			return err
		}
	}
	buffer := make([]byte, pageSize)
	at := uintptr(unix.AT_FDCWD & (1<<64 - 1))
	for {
		for chunk := range slices.Chunk(names, opensAtATime) {
			start := cpuTime()
			for i, name := range chunk {
				fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, at, uintptr(unsafe.Pointer(name)), unix.O_RDONLY, 0, 0, 0)
				if errno != 0 {
					return fmt.Errorf("open the %d. of a chunk: %w", i, errno)
				}
				n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
				if errno != 0 || n == 0 {
					return fmt.Errorf("read the %d. of a chunk: %d bytes, %v", i, n, errno)
				}
				unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
			}
			t.cpu.Add(cpuTime() - start)
			t.ops.Add(uint64(len(chunk)))
		}
	}
}

// execs starts one short process after the other. It counts the CPU time of this thread and of the
// child: at 200 processes a second nothing runs most of the time, so elapsed time would not show
// what a process costs.
func execs(t *tally) error {
	argv := []string{"/bin/busybox", "true"}
	for {
		start := cpuTime()
		pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{})
		if err != nil {
			return fmt.Errorf("start %v: %w", argv, err)
		}
		var used syscall.Rusage
		var status syscall.WaitStatus
		for {
			if _, err = syscall.Wait4(pid, &status, 0, &used); err != syscall.EINTR {
				break
			}
		}
		if err != nil || status != 0 {
			return fmt.Errorf("%v ended with %d, %v", argv, status, err)
		}
		t.cpu.Add(cpuTime() - start + uint64(used.Utime.Nano()+used.Stime.Nano()))
		t.ops.Add(1)
	}
}

// writes fills a file and removes it, again and again. Only the writes are timed. fio cannot leave
// out the removals, which take a sixth of its time. Overwriting an existing file would take no
// space, so it would run no program.
func writes(t *tally, o order) error {
	buffer := make([]byte, o.Size)
	for i := range buffer {
		buffer[i] = byte(i)
	}
	for {
		fd, err := unix.Open(o.Path, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return fmt.Errorf("open %s: %w", o.Path, err)
		}
		for range o.Times {
			start := cpuTime()
			// While removed files still take the space, xfs writes only a part, and frees space for
			// the next write.
			for rest := buffer; len(rest) > 0; {
				n, err := unix.Write(fd, rest)
				if err != nil {
					return fmt.Errorf("write %s: %w", o.Path, err)
				}
				rest = rest[n:]
			}
			t.cpu.Add(cpuTime() - start)
			t.ops.Add(1)
		}
		if err := errors.Join(unix.Close(fd), unix.Unlink(o.Path)); err != nil {
			return err
		}
	}
}
