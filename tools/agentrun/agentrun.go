// Package agentrun runs a built ebb-agent beside a throwaway node, for the demo, the benchmarks
// and the end-to-end tests. It runs the binary that people install, as a separate process that
// can be stopped, killed and measured.
package agentrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
	"github.com/ebb-agent/ebb/tools/shipped"
)

// Line is one line of the agent's log.
type Line struct {
	Time    time.Time
	Level   string
	Message string
	Fields  map[string]any // everything else; numbers are float64
}

// Text returns a field as text, or "" if the line has no such field.
func (l Line) Text(field string) string {
	if v, ok := l.Fields[field]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

// Number returns a field as a number, or 0 if it is not a number.
func (l Line) Number(field string) float64 {
	n, _ := l.Fields[field].(float64)
	return n
}

// ParseLine reads a line of the agent's log in its JSON format.
func ParseLine(text string) (Line, error) {
	l := Line{}
	if err := json.Unmarshal([]byte(text), &l.Fields); err != nil {
		return Line{}, fmt.Errorf("parse log line: %w", err)
	}
	l.Level, l.Message = l.Text("level"), l.Text("msg")
	l.Time, _ = time.Parse(time.RFC3339Nano, l.Text("time"))
	for _, k := range []string{"level", "msg", "time"} {
		delete(l.Fields, k)
	}
	return l, nil
}

// Options describes the agent to run.
type Options struct {
	Binary string
	Dir    string // for the configuration, the state and the log
	Config config.Config
	Env    []string   // besides its parent's
	OnLine func(Line) // called for each log line, one at a time; may be nil
}

// Process is a running ebb-agent.
type Process struct {
	process *process.Process
	log     string
	address chan string // gets the server's address once
	base    string
	admin   *http.Client // of the admin socket
}

// ConfigFor returns the defaults in mode enforce, pointed at a node: its socket, its own pin
// directory and any free port. The directories for the kubelet and for logs are on the node's
// filesystem. They do not exist unless the caller makes them.
func ConfigFor(n *node.Node) config.Config {
	c := config.Default()
	pointAt(&c, n)
	return c
}

func pointAt(c *config.Config, n *node.Node) {
	c.Mode = config.ModeEnforce
	c.Runtime.Socket = n.Socket()
	c.Kernel.PinDirectory = "/sys/fs/bpf/ebb-" + n.Name()
	c.State.Directory = filepath.Join(n.Dir(), "state")
	c.State.LockFile = filepath.Join(n.Dir(), "agent-run", "agent.lock")
	c.Server.Address, c.Server.HealthAddress = "127.0.0.1:0", ""
	c.Server.AdminSocket = filepath.Join(filepath.Dir(n.Socket()), "ebb.sock")
	c.Filesystems.Kubelet.Path = filepath.Join(n.Mount(), "kubelet")
	c.Filesystems.PodLogs.Path = filepath.Join(n.Mount(), "podlogs")
	c.Containers.LogLinks = filepath.Join(n.Mount(), "loglinks")
}

// Installation is an API server that binds pods to a node, and the configuration of an agent on
// that node.
type Installation struct {
	ControlPlane *peers.ControlPlane
	// Config is the chart's configuration in mode enforce, pointed at the node as [ConfigFor]
	// does.
	Config config.Config
}

// Install starts an API server for a node and gives the agent its rights there, as the
// manifests do. The caller must Close it, before the node.
func Install(ctx context.Context, n *node.Node) (_ *Installation, err error) {
	text, err := shipped.Config("agent")
	if err != nil {
		return nil, err
	}
	i := &Installation{}
	if i.Config, err = config.Parse(text); err != nil {
		return nil, err
	}
	pointAt(&i.Config, n)
	if i.ControlPlane, err = peers.StartControlPlane(ctx, peers.Config{Name: n.Name()}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	for _, manifest := range []string{"00-namespace.yaml", "agent.yaml"} {
		file, err := process.Find("deploy/manifests/" + manifest)
		if err != nil {
			return nil, err
		}
		if err := i.ControlPlane.Apply(ctx, file); err != nil {
			return nil, err
		}
	}
	i.Config.Pods.APIServer.NodeName = n.Name()
	i.Config.Pods.APIServer.Kubeconfig, err = i.ControlPlane.ServiceAccountKubeconfig(ctx, "ebb-system", "ebb-agent")
	return i, err
}

// StartKubelet starts a kubelet that registers with the API server, and sets its directories in
// Config. The caller must Close it, before the installation.
func (i *Installation) StartKubelet(ctx context.Context, c peers.KubeletConfig) (*peers.Kubelet, error) {
	c.ControlPlane = i.ControlPlane
	k, err := peers.StartKubelet(ctx, c)
	if err != nil {
		return nil, err
	}
	i.Config.Filesystems.Kubelet.Path, i.Config.Filesystems.PodLogs.Path = k.RootDir(), k.PodLogsDir()
	i.Config.Containers.LogLinks = k.ContainerLogsDir()
	return k, nil
}

// Close ends the API server, and unloads the agent's kernel programs.
func (i *Installation) Close() error { return errors.Join(i.ControlPlane.Close(), Unload(i.Config)) }

// Start runs the agent and waits until it is ready.
func Start(ctx context.Context, o Options) (*Process, error) {
	p, err := StartUnready(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := p.AwaitReady(ctx); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// StartUnready runs the agent and waits only until it serves.
func StartUnready(ctx context.Context, o Options) (*Process, error) {
	file := filepath.Join(o.Dir, "agent.yaml")
	var text strings.Builder
	if err := config.Print(&text, o.Config); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	p := &Process{log: filepath.Join(o.Dir, "agent.log"), address: make(chan string, 1), admin: peers.UnixClient(o.Config.Server.AdminSocket)}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	lines := &process.Lines{Line: func(text string) { p.note(text, o.OnLine) }}
	cmd := exec.Command(o.Binary, "--config", file)
	cmd.Env = append(os.Environ(), o.Env...)
	cmd.Stderr = io.MultiWriter(log, lines)
	if p.process, err = process.Start(cmd, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", o.Binary, err), log.Close())
	}
	go func() {
		<-p.process.Done()
		log.Close()
	}()
	select {
	case p.base = <-p.address:
		return p, nil
	case <-p.process.Done():
		return nil, fmt.Errorf("ebb-agent ended at once: %w", p.failure())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.Kill())
	}
}

func (p *Process) note(text string, onLine func(Line)) {
	l, err := ParseLine(text)
	if err != nil {
		return // not a log line: a panic, say; it is in the log
	}
	if l.Message == "serving" {
		p.address <- "http://" + l.Text("address")
	}
	if onLine != nil {
		onLine(l)
	}
}

// failure returns the process's exit status and the end of its log.
func (p *Process) failure() error {
	return fmt.Errorf("%s%s", p.process.State(), process.Tail(p.log))
}

// PID of the agent.
func (p *Process) PID() int { return p.process.PID() }

// Usage returns the resources that the agent has used since its start.
func (p *Process) Usage() (process.Usage, error) { return process.UsageOf(p.PID()) }

// URL of its server.
func (p *Process) URL() string { return p.base }

// Ended is closed once the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.process.Done() }

// Stop ends the agent as a DaemonSet would. It returns an error if the agent does not end within
// a pod's grace period of thirty seconds.
func (p *Process) Stop() error {
	grace, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.process.End(grace, syscall.SIGTERM); err != nil {
		return errors.Join(fmt.Errorf("ebb-agent: %w", err), p.Kill())
	}
	if p.process.Err() != nil {
		return fmt.Errorf("ebb-agent: %w", p.failure())
	}
	return nil
}

// Kill ends the agent with SIGKILL.
func (p *Process) Kill() error { return p.process.End(context.Background(), syscall.SIGKILL) }

// AwaitReady waits until /readyz succeeds.
func (p *Process) AwaitReady(ctx context.Context) error {
	return p.process.Await(ctx, p.log, "ebb-agent to be ready", func(ctx context.Context) error {
		return peers.Request(ctx, http.DefaultClient, http.MethodGet, p.base+"/readyz", nil, nil)
	})
}

// Get returns the body of a page of the agent's admin socket, also if the agent refuses the
// request.
func (p *Process) Get(ctx context.Context, path string) (body string, err error) {
	err = p.Ask(ctx, http.MethodGet, path, nil, &body)
	return body, err
}

// Ask sends a request to the agent's admin socket. For in and out see [peers.Request].
func (p *Process) Ask(ctx context.Context, method, path string, in, out any) error {
	return peers.Request(ctx, p.admin, method, "http://ebb"+path, in, out)
}

// Images returns the agent's page of images.
func (p *Process) Images(ctx context.Context) (e page.Images, err error) {
	err = p.Ask(ctx, http.MethodGet, "/images", nil, &e)
	return e, err
}

// Reclaim has the agent carry out a plan that it has shown, and calls step with each event. The
// last event is the result; without it, the error wraps [show.ErrCut].
func (p *Process) Reclaim(ctx context.Context, r page.ReclaimRequest, step func(page.ReclaimEvent)) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://ebb/reclaim", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := p.admin.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return errors.Join(fmt.Errorf("reclaim: status %d: %s", resp.StatusCode, text), err)
	}
	for e, err := range show.Events(resp.Body) {
		if err != nil {
			return fmt.Errorf("reclaim: %w", err)
		}
		step(e)
	}
	return nil
}

// Metric returns the value of one series, written as in the exposition format:
// `name` or `name{label="value"}`.
func (p *Process) Metric(ctx context.Context, series string) (float64, error) {
	return peers.Metric(ctx, http.DefaultClient, p.base, series)
}

// Next returns the next value from a channel that OnLine sends to. It fails if the agent or ctx
// ends first.
func Next[T any](ctx context.Context, p *Process, c <-chan T) (v T, err error) {
	select {
	case v = <-c:
		return v, nil
	case <-p.Ended():
		return v, errors.New("the agent ended")
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// Unload removes the kernel programs that agents with this configuration have
// pinned.
func Unload(c config.Config) error { return bpf.Unload(c.Kernel.PinDirectory) }
