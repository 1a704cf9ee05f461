// Package agentrun runs a built ebb-agent beside a throwaway node, for the
// demo, the benchmarks and the end-to-end tests: the binary that people
// install, as a process of its own, that can be stopped, killed and measured.
package agentrun

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	agent "github.com/ebb-agent/ebb/agent/node"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/tools/node"
)

// Line is one line of the agent's log.
type Line struct {
	Time    time.Time
	Level   string
	Message string
	Fields  map[string]any // everything else; numbers are float64
}

// Text returns a field as text, "" if it is not there.
func (l Line) Text(field string) string {
	if v, ok := l.Fields[field]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

// Number returns a field as a number, 0 if it is none.
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

// Options says what to run.
type Options struct {
	Binary string
	Dir    string // for the configuration, the state and the log
	Config config.Config
	OnLine func(Line) // called for each log line, one at a time; may be nil
}

// Process is a running ebb-agent.
type Process struct {
	cmd     *exec.Cmd
	dir     string
	address chan string // gets the server's address once
	base    string
	ended   chan struct{}
	err     error
	mu      sync.Mutex
	tail    []string
}

// ConfigFor returns the defaults, but enforced and pointed at a node: its socket, a pin
// directory of its own, any free port, and directories on its filesystem for
// the kubelet and for logs, which are not there unless somebody makes them.
func ConfigFor(n *node.Node) config.Config {
	c := config.Default()
	c.Mode = config.ModeEnforce
	c.Runtime.Socket = n.Socket()
	c.Kernel.PinDirectory = "/sys/fs/bpf/ebb-" + n.Name()
	c.State.Directory = filepath.Join(n.Dir(), "state")
	c.State.LockFile = filepath.Join(n.Dir(), "agent-run", "agent.lock")
	c.Server.Address = "127.0.0.1:0"
	c.Filesystems.Kubelet.Path = filepath.Join(n.Mount(), "kubelet")
	c.Filesystems.PodLogs.Path = filepath.Join(n.Mount(), "podlogs")
	c.Containers.LogLinks = filepath.Join(n.Mount(), "loglinks")
	return c
}

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
	p := &Process{dir: o.Dir, address: make(chan string, 1), ended: make(chan struct{})}
	p.cmd = exec.Command(o.Binary, "--config", file)
	// A demo that dies must not leave an agent behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(o.Dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go p.supervise(pipe, log, o.OnLine, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Binary, err)
	}
	select {
	case p.base = <-p.address:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("ebb-agent ended at once: %w", p.failure())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.Kill())
	}
}

// supervise starts the process and reads its log until it ends. All of it
// happens on one locked thread, because Pdeathsig is tied to the thread that
// forked.
func (p *Process) supervise(pipe io.Reader, log *os.File, onLine func(Line), started chan<- error) {
	defer close(p.ended)
	defer log.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fmt.Fprintln(log, lines.Text())
		p.note(lines.Text(), onLine)
	}
	p.err = p.cmd.Wait()
}

func (p *Process) note(text string, onLine func(Line)) {
	p.mu.Lock()
	p.tail = append(p.tail, text)
	if len(p.tail) > 20 {
		p.tail = p.tail[1:]
	}
	p.mu.Unlock()
	l, err := ParseLine(text)
	if err != nil {
		return // not a log line: a panic, say; it is in the tail
	}
	if l.Message == "serving" {
		p.address <- "http://" + l.Text("address")
	}
	if onLine != nil {
		onLine(l)
	}
}

// failure describes why the process ended.
func (p *Process) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return fmt.Errorf("%w; its last lines: %s", p.err, strings.Join(p.tail, "\n"))
	}
	return fmt.Errorf("its last lines: %s", strings.Join(p.tail, "\n"))
}

// PID of the agent.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// URL of its server.
func (p *Process) URL() string { return p.base }

// Ended is closed once the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stop ends the agent as a DaemonSet would, and reports if it does not end
// within a pod's thirty seconds of grace.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("ebb-agent: %w", p.failure())
		}
		return nil
	case <-time.After(30 * time.Second):
		return errors.Join(errors.New("ebb-agent does not end"), p.Kill())
	}
}

// Kill ends the agent with SIGKILL.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// AwaitReady waits until /readyz says so.
func (p *Process) AwaitReady(ctx context.Context) error {
	for {
		body, status, err := p.get(ctx, "/readyz")
		if err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ebb-agent is not ready: %s: %w", strings.TrimSpace(body), ctx.Err())
		case <-p.ended:
			return fmt.Errorf("ebb-agent ended: %w", p.failure())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *Process) get(ctx context.Context, path string) (body string, status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return "", 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), resp.StatusCode, err
}

// Get returns the body of a page of the agent.
func (p *Process) Get(ctx context.Context, path string) (string, error) {
	body, status, err := p.get(ctx, path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d: %s", path, status, strings.TrimSpace(body))
	}
	return body, err
}

// Images returns what the agent says of each image.
func (p *Process) Images(ctx context.Context) (agent.Explanation, error) {
	var e agent.Explanation
	body, err := p.Get(ctx, "/images")
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal([]byte(body), &e)
}

// Metric returns the value of one series, written as in the exposition format:
// `name` or `name{label="value"}`.
func (p *Process) Metric(ctx context.Context, series string) (float64, error) {
	body, err := p.Get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			_, err := fmt.Sscan(rest, &v)
			return v, err
		}
	}
	return 0, fmt.Errorf("no series %s", series)
}

// Unload removes the kernel programs that agents with this configuration have
// pinned.
func Unload(c config.Config) error { return bpf.Unload(c.Kernel.PinDirectory) }
