package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/tools/peers"
)

// contender is a collector that can be started and stopped.
type contender struct {
	name string
	user string // what the audit log calls it
	// start returns once the process runs, which may be long before it collects.
	start func(ctx context.Context) (pid int, stop func() error, err error)
}

const onlyCollector = "--controllers=garbage-collector-controller"

// peerArgs lift the client's limits, which are 20 requests a second by default.
var peerArgs = []string{onlyCollector, "--kube-api-qps=10000", "--kube-api-burst=10000"}

func (b *bed) peer(name string, args ...string) contender {
	return contender{name: name, user: "system:serviceaccount:kube-system:generic-garbage-collector", start: func(ctx context.Context) (int, func() error, error) {
		c := b.cp.ControllerManager
		c.SetArgs(args...)
		started := make(chan error, 1)
		go func() { started <- c.Start(ctx) }()
		// Start returns once the process is ready, which takes longer.
		for c.PID() == 0 {
			select {
			case err := <-started:
				if err != nil {
					return 0, nil, err
				}
			case <-time.After(time.Millisecond):
			}
		}
		return c.PID(), func() error { return errors.Join(<-started, c.Stop(context.WithoutCancel(ctx))) }, nil
	}}
}

func (b *bed) fast() contender { return b.peer("peer", peerArgs...) }

// ebb runs with a configuration that lets it be alone and delete as much as the
// bench wants.
func (b *bed) ebb() contender {
	return contender{name: "ebb", user: "system:serviceaccount:ebb-system:ebb-controller", start: func(ctx context.Context) (int, func() error, error) {
		config := filepath.Join(b.dir, "config.yaml")
		text, err := json.Marshal(map[string]any{
			"leaderElection": map[string]any{"enabled": false},
			"brake":          map[string]any{"deletions": 10_000_000},
			"server":         map[string]any{"address": b.address(), "adminSocket": filepath.Join(b.dir, "admin.sock")},
		})
		if err == nil {
			err = os.WriteFile(config, text, 0o600)
		}
		if err != nil {
			return 0, nil, err
		}
		log, err := os.OpenFile(filepath.Join(b.dir, "ebb-controller.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return 0, nil, err
		}
		cmd := exec.CommandContext(ctx, b.controller, "--kubeconfig", b.kubeconfig, "--config", config)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		if err := errors.Join(cmd.Start(), log.Close()); err != nil {
			return 0, nil, err
		}
		return cmd.Process.Pid, func() error {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				return err
			}
			if err := cmd.Wait(); err != nil {
				return fmt.Errorf("ebb-controller: %w: %s", err, lastLines(log.Name()))
			}
			return nil
		}, nil
	}}
}

func lastLines(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// run has a contender run while something is done with it: once it collects.
func (b *bed) run(ctx context.Context, c contender, do func(pid int) error) (err error) {
	pid, stop, err := c.start(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := b.probe(ctx); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return do(pid)
}

// probe returns once the contender has collected a dependent that was made after
// all that was made before.
func (b *bed) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("it does not collect"))
	defer cancel()
	f, err := b.makeFamily(ctx, 1)
	if err != nil {
		return err
	}
	if err := b.delete(ctx, f, "Background"); err != nil {
		return err
	}
	return b.watch.until(ctx, func(p progress) bool { return p.there == 0 })
}

// usage of a process, in MiB.
func memory(pid int) (rss, peak float64, err error) {
	u, err := peers.UsageOf(pid)
	const mib = 1 << 20
	return float64(u.RSSBytes) / mib, float64(u.PeakBytes) / mib, err
}
