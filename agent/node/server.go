package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/agent/node/monitor"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/runtime/wait"
)

// answerWait bounds each wait of a request: for the monitor, for a list, for a save.
const answerWait = 5 * time.Second

// serve answers requests until ctx is done: metrics and health on the network, all requests on the
// admin socket.
func (a *admin) serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	c := a.cfg.Server
	if err := program.CheckWebConfig(c.WebConfigFile); err != nil {
		return fmt.Errorf("server.webConfigFile: %w", err)
	}
	if c.Address != "" {
		mux := http.NewServeMux()
		a.probes(mux)
		group.Go(func() error {
			listener, err := a.listen(ctx, c.Address)
			if err != nil || listener == nil {
				return err
			}
			a.log.Info("serving", "address", listener.Addr().String(), "webConfigFile", c.WebConfigFile, "reason", "start")
			return program.ServeProtected(ctx, listener, mux, c.WebConfigFile, a.log)
		})
	}
	if c.HealthAddress != "" {
		listener, err := net.Listen("tcp", c.HealthAddress)
		if err != nil {
			return fmt.Errorf("server.healthAddress: %w", err)
		}
		a.log.Info("serving health", "address", listener.Addr().String(), "reason", "start")
		mux := http.NewServeMux()
		a.health.add(mux)
		group.Go(func() error { return program.Serve(ctx, listener, mux) })
	}
	if c.AdminSocket != "" {
		listener, err := program.ListenPrivately(c.AdminSocket)
		if err != nil {
			return fmt.Errorf("server.adminSocket: %w", err)
		}
		group.Go(func() error { return program.Serve(ctx, listener, a.handler()) })
	}
	return group.Wait()
}

// listenAgain is the time between two attempts to listen on the node's address.
const listenAgain = 10 * time.Second

// listen listens on the port of metrics. It waits for an address from NODE_IP that the node does not have (yet):
// metrics alone are no reason to remove nothing. It returns nil if ctx ends first.
func (a *admin) listen(ctx context.Context, configured string) (net.Listener, error) {
	address := onNode(configured)
	for warned := false; ; warned = true {
		listener, err := net.Listen("tcp", address)
		switch {
		case err == nil:
			return listener, nil
		case address == configured || !errors.Is(err, syscall.EADDRNOTAVAIL):
			return nil, fmt.Errorf("server.address: %w", err)
		case !warned:
			a.log.Warn("no metrics: the node does not have the address from NODE_IP; trying again",
				"address", address, "error", err, "fix", "with the chart, agent.metrics.everyAddress=true")
		}
		if !wait.Sleep(ctx, listenAgain) {
			return nil, nil
		}
	}
}

// onNode gives an address without a host the one in the environment variable NODE_IP. Without that
// variable, the address stays every address of the machine.
func onNode(address string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		return net.JoinHostPort(os.Getenv("NODE_IP"), port)
	}
	return address
}

// probes adds the requests that are not restricted to root: metrics and health.
func (p *parts) probes(mux *http.ServeMux) {
	mux.Handle("GET /metrics", program.Metrics(p.registry))
	p.health.add(mux)
}

func (h *health) add(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", h.healthz)
	mux.HandleFunc("GET /readyz", h.readyz)
}

// inTurn calls f under the monitor. It returns an error if it has to wait longer than answerWait, or if
// ctx ends.
func inTurn(ctx context.Context, m *monitor.Monitor, f func()) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	return m.DoWithin(ctx, f)
}
