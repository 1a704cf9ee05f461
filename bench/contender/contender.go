// Package contender starts the collectors that are measured beside each other:
// ebb-controller, and the kube-controller-manager's garbage collector.
package contender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/tools/peers"
)

// Contender is a collector that can be started and stopped.
type Contender struct {
	Name string
	User string // what the audit log calls it
	// Start returns once the process runs, which may be long before it collects.
	Start func(ctx context.Context) (pid int, stop func() error, err error)
}

// OnlyCollector has the kube-controller-manager run its garbage collector alone.
const OnlyCollector = "--controllers=garbage-collector-controller"

// NoLimits lift the peer's client limits, which are 20 requests a second by default.
var NoLimits = []string{"--kube-api-qps=10000", "--kube-api-burst=10000"}

// PeerArgs are both.
var PeerArgs = append([]string{OnlyCollector}, NoLimits...)

// Peer is the kube-controller-manager of a control plane, with these arguments.
func Peer(cp *peers.ControlPlane, name string, args ...string) Contender {
	return Contender{Name: name, User: "system:serviceaccount:kube-system:generic-garbage-collector", Start: func(ctx context.Context) (int, func() error, error) {
		c := cp.ControllerManager
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

// Ebb is ebb-controller.
type Ebb struct {
	Binary     string
	Kubeconfig string
	Dir        string // for its configuration, log and socket
	Address    string // that it serves metrics on
	// Settings are more of its configuration.
	Settings map[string]any
}

// Ready says whether it leads, and has listed everything.
func (e Ebb) Ready(ctx context.Context) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Address+"/readyz", nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, nil // it does not listen yet
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode == http.StatusOK && !bytes.Contains(body, []byte("waiting for the lease")), errors.Join(err, resp.Body.Close())
}

// Contender runs with a configuration that lets it be alone and delete as much as a
// benchmark wants.
func (e Ebb) Contender() Contender {
	return Contender{Name: "ebb", User: "system:serviceaccount:ebb-system:ebb-controller", Start: e.start}
}

func (e Ebb) start(ctx context.Context) (int, func() error, error) {
	config := filepath.Join(e.Dir, "config.yaml")
	settings := map[string]any{
		"mode":           "enforce",
		"leaderElection": map[string]any{"enabled": false},
		"brake":          map[string]any{"deletions": 10_000_000},
		"envelope":       map[string]any{"burst": 0},
		"server":         map[string]any{"address": e.Address, "adminSocket": filepath.Join(e.Dir, "admin.sock")},
	}
	maps.Copy(settings, e.Settings)
	text, err := json.Marshal(settings)
	if err == nil {
		err = os.WriteFile(config, text, 0o600)
	}
	if err != nil {
		return 0, nil, err
	}
	log, err := os.OpenFile(filepath.Join(e.Dir, "ebb-controller.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, nil, err
	}
	cmd := exec.CommandContext(ctx, e.Binary, "--kubeconfig", e.Kubeconfig, "--config", config)
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
}

func lastLines(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// FreeAddress is one that nobody listens on.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
