package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/agent/node/monitor"
	"github.com/ebb-agent/ebb/agent/program"
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
		listener, err := net.Listen("tcp", onNode(c.Address))
		if err != nil {
			return fmt.Errorf("server.address: %w", err)
		}
		a.log.Info("serving", "address", listener.Addr().String(), "webConfigFile", c.WebConfigFile, "reason", "start")
		mux := http.NewServeMux()
		a.probes(mux)
		group.Go(func() error { return program.ServeProtected(ctx, listener, mux, c.WebConfigFile, a.log) })
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
