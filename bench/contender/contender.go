// Package contender starts the collectors that are measured beside each other:
// ebb-controller, and the kube-controller-manager's garbage collector.
package contender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
	"github.com/ebb-agent/ebb/tools/shipped"
)

// Contender is a collector that can be started and stopped.
type Contender struct {
	Name string
	User string // user name in the audit log
	// Start returns once the process runs, which may be long before it collects.
	Start func(ctx context.Context) (pid int, stop func() error, err error)
}

// Run starts the contender, calls do with its process ID, and stops it.
func (c Contender) Run(ctx context.Context, do func(pid int) error) (err error) {
	pid, stop, err := c.Start(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	return do(pid)
}

// OnlyCollector makes the kube-controller-manager run only its garbage collector.
const OnlyCollector = "--controllers=garbage-collector-controller"

// NoLimits lift the peer's client limits, which are 20 requests a second by default.
var NoLimits = []string{"--kube-api-qps=10000", "--kube-api-burst=10000"}

// PeerArgs are [OnlyCollector] and [NoLimits].
var PeerArgs = append([]string{OnlyCollector}, NoLimits...)

// MoreWorkers lets the peer's garbage collector send five times as many requests at once as by
// default.
const MoreWorkers = "--concurrent-gc-syncs=100"

// PeerShipped is the kube-controller-manager with all its controllers, leader election and
// the limits that it has by default.
func PeerShipped(cp *peers.ControlPlane) Contender {
	return Peer(cp, "peer as shipped", "--leader-elect=true")
}

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
	Address    string // where it serves metrics
	// Settings are added to the configuration of [Ebb.Contender].
	Settings map[string]any
}

// Ready reports whether ebb leads and has listed everything.
func (e Ebb) Ready(ctx context.Context) (bool, error) {
	var text string
	err := peers.Request(ctx, http.DefaultClient, http.MethodGet, "http://"+e.Address+"/readyz", nil, &text)
	return err == nil && !strings.Contains(text, "waiting for the lease"), ctx.Err()
}

// Heap returns ebb's live heap in bytes, as of its latest garbage collection.
func (e Ebb) Heap(ctx context.Context) (float64, error) {
	return peers.Metric(ctx, http.DefaultClient, "http://"+e.Address, "go_gc_heap_live_bytes")
}

// Contender is ebb at its best: alone, and with nothing that bounds its deletions.
func (e Ebb) Contender() Contender {
	settings := map[string]any{
		"leaderElection":    map[string]any{"enabled": false},
		"circuitBreaker":    map[string]any{"deletions": 0},
		"envelope":          map[string]any{"burst": 0},
		"collectorEnvelope": map[string]any{"burst": 0},
	}
	maps.Copy(settings, e.Settings)
	return e.contender("ebb", settings)
}

// Shipped is ebb as the chart installs it: with leader election, and with its envelope and circuit
// breaker, whose limits the benchmark must not reach. settings are added to that configuration.
func (e Ebb) Shipped(settings map[string]any) Contender {
	return e.contender("ebb as shipped", settings)
}

func (e Ebb) contender(name string, settings map[string]any) Contender {
	return Contender{Name: name, User: "system:serviceaccount:ebb-system:ebb-controller", Start: func(ctx context.Context) (int, func() error, error) {
		return e.start(ctx, settings)
	}}
}

// start starts ebb with the shipped configuration, mode enforce, and the settings in own.
func (e Ebb) start(ctx context.Context, own map[string]any) (int, func() error, error) {
	config := filepath.Join(e.Dir, "config.yaml")
	text, err := shipped.Config("controller")
	if err != nil {
		return 0, nil, err
	}
	var settings map[string]any
	if err := yaml.Unmarshal(text, &settings); err != nil {
		return 0, nil, err
	}
	settings["mode"] = "enforce"
	settings["server"] = map[string]any{"address": e.Address, "adminSocket": filepath.Join(e.Dir, "admin.sock")}
	maps.Copy(settings, own)
	text, err = json.Marshal(settings)
	if err == nil {
		err = os.WriteFile(config, text, 0o600)
	}
	if err != nil {
		return 0, nil, err
	}
	log := filepath.Join(e.Dir, "ebb-controller.log")
	p, err := process.StartLogged(exec.Command(e.Binary, "--kubeconfig", e.Kubeconfig, "--config", config), log, nil)
	if err != nil {
		return 0, nil, err
	}
	return p.PID(), func() error {
		err := errors.Join(p.End(context.WithoutCancel(ctx), syscall.SIGTERM), p.Err())
		if err != nil {
			return fmt.Errorf("ebb-controller: %w%s", err, process.Tail(log))
		}
		return nil
	}, nil
}

// FreeAddress returns a local address that nothing listens on.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
