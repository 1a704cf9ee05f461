package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ebb-agent/ebb/tools/process"
)

const (
	// An emulated machine takes minutes. A process that has ended is noticed at once.
	readyTimeout = 5 * time.Minute
	stopTimeout  = 2 * time.Minute
)

// ErrNotRunning is the error of methods that need a running process.
var ErrNotRunning = errors.New("not running")

// Component is one process of a control plane, or a kubelet. It can be stopped, killed,
// paused and started again, and keeps its data on disk. Its methods may be called from
// several goroutines.
type Component struct {
	name    string
	url     string // "" if it serves no HTTPS
	binary  string
	args    []string
	logFile string
	log     *slog.Logger
	inherit *os.File                    // the owner's lock, or nil
	start   func(*exec.Cmd) error       // starts the process, on the thread that forks; nil: cmd.Start
	ready   func(context.Context) error // one readiness check, repeated until it succeeds

	mu    sync.Mutex
	extra []string         // the caller's arguments; the last value of a flag applies
	proc  *process.Process // nil if it never ran
}

// Name is the name of its binary.
func (c *Component) Name() string { return c.name }

// URL is the base URL of its HTTPS server, without a slash at its end; "" for etcd.
// Metrics need an authorised client, such as the Admin.
func (c *Component) URL() string { return c.url }

// LogFile is its log file, which grows over restarts.
func (c *Component) LogFile() string { return c.logFile }

// SetArgs replaces the caller's arguments, from the next start on.
func (c *Component) SetArgs(args ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.extra = slices.Clone(args)
}

// Start starts the process, unless it is running, and returns once it is ready.
func (c *Component) Start(ctx context.Context) error {
	begun := time.Now()
	p, err := c.launch()
	if err != nil {
		return err
	}
	if err := c.awaitReady(ctx, p); err != nil {
		return err
	}
	c.log.Info("ready", "component", c.name, "took", time.Since(begun).Round(time.Millisecond))
	return nil
}

// launch starts the process, unless it is running.
func (c *Component) launch() (*process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc.Alive() {
		return c.proc, nil
	}
	cmd := exec.Command(c.binary, slices.Concat(c.args, c.extra)...)
	if c.inherit != nil {
		cmd.ExtraFiles = []*os.File{c.inherit}
	}
	var start func() error
	if c.start != nil {
		start = func() error { return c.start(cmd) }
	}
	p, err := process.StartLogged(cmd, c.logFile, start)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	c.proc = p
	return p, nil
}

func (c *Component) awaitReady(ctx context.Context, p *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := p.Await(ctx, c.logFile, "an answer", c.ready); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	return nil
}

func (c *Component) current() *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

// Running reports whether the process exists, paused or not.
func (c *Component) Running() bool { return c.current().Alive() }

// Stop ends the process gracefully. If that takes too long it kills the process and
// returns an error. If the process does not run, Stop does nothing.
func (c *Component) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := c.end(ctx, syscall.SIGTERM); err != nil {
		return errors.Join(err, c.Kill())
	}
	return nil
}

// Kill ends the process as a crash would, by SIGKILL.
func (c *Component) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return c.end(ctx, syscall.SIGKILL)
}

func (c *Component) end(ctx context.Context, sig syscall.Signal) error {
	p := c.current()
	if !p.Alive() {
		return nil
	}
	if err := p.End(ctx, sig); err != nil {
		return fmt.Errorf("end %s: %w%s", c.name, err, process.Tail(c.logFile))
	}
	return nil
}

// Restart stops the process, if it is running, and starts it.
func (c *Component) Restart(ctx context.Context) error {
	if err := c.Stop(ctx); err != nil {
		return err
	}
	return c.Start(ctx)
}

// Pause suspends the process, like a machine that hangs: its connections remain open
// and get no answers. It can be killed, but not stopped.
func (c *Component) Pause() error { return c.halt(syscall.SIGSTOP, true) }

// Resume continues a paused process.
func (c *Component) Resume() error { return c.halt(syscall.SIGCONT, false) }

// halt returns once every thread has changed its state: kill(2) only sends the signal.
func (c *Component) halt(sig syscall.Signal, stopped bool) error {
	p := c.current()
	if !p.Alive() {
		return fmt.Errorf("%s: %w", c.name, ErrNotRunning)
	}
	if err := p.Signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", c.name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return allThreads(p.PID(), stopped)
	})
	if err != nil {
		return fmt.Errorf("signal %s: %w", c.name, err)
	}
	return nil
}

// PID is the PID of the running process, or 0.
func (c *Component) PID() int {
	p := c.current()
	if !p.Alive() {
		return 0
	}
	return p.PID()
}

// Usage returns the resources that the running process has used since its start.
func (c *Component) Usage() (process.Usage, error) {
	pid := c.PID()
	if pid == 0 {
		return process.Usage{}, fmt.Errorf("usage of %s: %w", c.name, ErrNotRunning)
	}
	return process.UsageOf(pid)
}

// allThreads reports whether every thread is stopped, or none is. It ignores threads
// that have just ended.
func allThreads(pid int, stopped bool) (bool, error) {
	threads, err := procfs.AllThreads(pid)
	return !slices.ContainsFunc(threads, func(t procfs.Proc) bool {
		stat, err := t.Stat()
		return err == nil && (stat.State == "T") != stopped
	}), err
}
