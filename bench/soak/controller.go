package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/bench/soak/skew"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
	"github.com/ebb-agent/ebb/tools/socketrelay"
)

// restartAfter is how long a controller that ended is left stopped, as by a kubelet.
const restartAfter = time.Second

// lease is short, so that a change of the leader takes seconds.
const lease = 8 * time.Second

// controller is one of the two ebb-controllers: a process that is started again
// whenever it ends.
type controller struct {
	name, binary, dir string
	kubeconfig        string
	inventory, driver string // paths of a file and a socket
	offset            time.Duration
	relay             *socketrelay.Relay // to the API servers

	mu      sync.Mutex
	process *process.Process
	starts  int
	peak    int64
}

// run keeps the process running until ctx ends, and returns once it is gone.
func (c *controller) run(ctx context.Context) error {
	config, err := json.Marshal(object{
		"mode":           "enforce",
		"leaderElection": object{"leaseDuration": lease.String(), "renewDeadline": (lease * 3 / 4).String(), "retryPeriod": "1s"},
		"collectors":     c.collectors(),
		// The oracle does not know of foreground deletions that may end early.
		"foregroundPatience": "1h",
		"server":             object{"address": "", "adminSocket": c.socket()},
		"log":                object{"level": "debug"},
	})
	if err == nil {
		err = os.WriteFile(c.file("yaml"), config, 0o600)
	}
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := c.once(ctx); err != nil {
			return err
		}
		sleep(ctx, restartAfter)
	}
	return nil
}

func (c *controller) file(ending string) string { return filepath.Join(c.dir, c.name+"."+ending) }
func (c *controller) socket() string            { return c.file("sock") }

// once runs the process until it ends by itself, or with ctx.
func (c *controller) once(ctx context.Context) error {
	cmd := exec.Command(c.binary, "--kubeconfig", c.kubeconfig, "--config", c.file("yaml"))
	p, err := process.StartLogged(cmd, c.file("log"), func() error { return skew.Start(cmd, c.offset) })
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	c.set(p)
	defer c.set(nil)
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return p.End(context.WithoutCancel(ctx), syscall.SIGKILL)
	}
}

func (c *controller) set(p *process.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process = p; p != nil {
		c.starts++
	}
}

// signal sends a signal to the process, if there is one.
func (c *controller) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		_ = c.process.Signal(s) // it may end at this moment
	}
}

// measure records the peak memory so far.
func (c *controller) measure() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return
	}
	if u, err := process.UsageOf(c.process.PID()); err == nil {
		c.peak = max(c.peak, u.PeakBytes)
	}
}

func (c *controller) seen() (starts int, peak int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts, c.peak
}

// state returns what the controller reports of itself, or an error if it does not answer.
func (c *controller) state(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var text string
	err := peers.Request(ctx, peers.UnixClient(c.socket()), http.MethodGet, "http://ebb/readyz", nil, &text)
	if status := new(peers.StatusError); errors.As(err, &status) {
		err = nil // a status is an answer
	}
	return text, err
}

var errNoLeader = errors.New("no controller leads")

// leader returns the controller that does not wait for the Lease.
func leader(ctx context.Context, controllers []*controller) (*controller, error) {
	for _, c := range controllers {
		if text, err := c.state(ctx); err == nil && !strings.Contains(text, "waiting for the lease") {
			return c, nil
		}
	}
	return nil, errNoLeader
}
