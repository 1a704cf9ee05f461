package peers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a child that cannot outlive this process, whatever ends it.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and was waited for
}

// spawn starts a child from a thread of its own, after prepare (if there is
// one) has run on that thread.
//
// The kernel sends Pdeathsig when the thread that forked ends, so this one has
// to last exactly as long as the child. It is never unlocked: it ends with its
// goroutine, and with it whatever prepare has done to it, such as another mount
// namespace.
func spawn(cmd *exec.Cmd, prepare func() error) (*process, error) {
	// Its own process group: a Ctrl-C is for the owner, who then cleans up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	onOwnThread(func() {
		if prepare != nil {
			if err := prepare(); err != nil {
				started <- err
				return
			}
		}
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in its log, and in cmd.ProcessState
	})
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// onOwnThread runs f in a goroutine on a thread that ends with f. The main
// thread would be the wrong one: it never ends, and it is what /proc/PID shows
// of the whole process. So it is held until f has another.
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

// alive tells whether there is a process, and it has not ended.
func (p *process) alive() bool {
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

// signal says os.ErrProcessDone of a process that was waited for: its pid may
// be another's by now.
func (p *process) signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

const logTailBytes = 4096

// logTail returns the end of a log, to go behind an error.
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	// Fails on a log shorter than that, which is then read from its start.
	_, _ = f.Seek(-logTailBytes, io.SeekEnd)
	tail, err := io.ReadAll(io.LimitReader(f, logTailBytes))
	if err != nil || len(tail) == 0 {
		return ""
	}
	return fmt.Sprintf("\n%s ends with:\n%s", path, strings.TrimSpace(string(tail)))
}
