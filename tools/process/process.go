//go:build linux

// Package process runs children that cannot outlive this process, and reads the resource
// usage of processes.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/await"
)

// Process is a child process. Its methods may be called from several goroutines.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and has been reaped
	err  error         // of cmd.Wait; valid once done is closed
}

// Start starts a child by calling start on a thread of its own; nil is cmd.Start. start
// may change that thread first, for example enter a namespace. Unless cmd.SysProcAttr is
// set, the kernel kills the child with this process.
//
// The kernel sends Pdeathsig when the thread that forked ends, so the thread has to last
// exactly as long as the child. It is never unlocked: it ends with its goroutine, and so
// do the changes that start made to it.
func Start(cmd *exec.Cmd, start func() error) (*Process, error) {
	if start == nil {
		start = cmd.Start
	}
	if cmd.SysProcAttr == nil {
		// Its own process group: a Ctrl-C reaches only the owner, which then cleans up.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	onOwnThread(func() {
		err := start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	})
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// StartLogged is Start of a child whose output is appended to a log file.
func StartLogged(cmd *exec.Cmd, log string, start func() error) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	return Start(cmd, start)
}

// onOwnThread runs f in a goroutine on a thread that ends with f. The main thread is
// unsuitable: it never ends, and /proc/PID shows its state as that of the whole process.
// So the main thread is held until f has another one.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		settled := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(settled)
			f()
		}()
		<-settled
		runtime.UnlockOSThread()
	}()
}

// Done is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive reports whether the process has been started and has not ended.
func (p *Process) Alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Await calls ask until it returns nil. If ctx or the process ends first, the error
// includes the last error of ask and the end of the log.
func (p *Process) Await(ctx context.Context, log, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.done:
			cancel(fmt.Errorf("it ended: %s", p.State()))
		case <-ctx.Done():
		}
	}()
	if err := await.Until(ctx, what, ask); err != nil {
		return fmt.Errorf("%w%s", err, Tail(log))
	}
	return nil
}

// PID is the PID of the process, also after its end.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Err waits for the end of the process and returns its error: nil for exit status 0.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// State waits for the end of the process and returns its state.
func (p *Process) State() *os.ProcessState {
	<-p.done
	return p.cmd.ProcessState
}

// Signal sends a signal. For a process that was reaped it returns os.ErrProcessDone: its
// PID may belong to another process by now.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// End sends a signal and waits until the process has ended. It is no error if the
// process has ended before.
func (p *Process) End(ctx context.Context, sig os.Signal) error {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process: %w", err)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for its end: %w", ctx.Err())
	}
}

const tailBytes = 16 << 10

// Tail returns the end of a log, to be appended to an error, or "" if the log cannot be
// read.
func Tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	// Seek fails on a shorter log, which is then read from its start.
	_, _ = f.Seek(-tailBytes, io.SeekEnd)
	tail, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil || len(tail) == 0 {
		return ""
	}
	return fmt.Sprintf("\n%s ends with:\n%s", path, strings.TrimSpace(string(tail)))
}
