package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/soaknode/oracle"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/socketrelay"
)

const (
	mib        = 1 << 20
	minimumAge = 3 * time.Second // a pull takes time
	startGrace = 3 * time.Second
	podsGone   = startGrace + 10*time.Second // the end of a pod until nothing is left of it
	high, low  = 80, 75
)

// fixture is a node, an agent on it, and an API server that binds pods to it.
type fixture struct {
	options
	node     *node.Node
	cp       *peers.ControlPlane
	admin    *http.Client
	relay    *socketrelay.Relay
	registry *http.Server
	kubelet  *peers.Kubelet // nil: the driver starts and ends pods
	config   config.Config
	changed  map[string]any // what is not as shipped
	oracle   *oracle.Oracle
	memory   memory

	mu       sync.Mutex
	agent    *agentrun.Process // nil while none runs
	capacity uint64
	seen     figures
	looks    int // requests for /readyz
	ready    int
	unready  string // the latest error of /readyz
	holds    int    // lines of a hold that are changes: it begins and ends, once after each crossing
}

func newFixture(ctx context.Context, o options, fs string) (_ *fixture, err error) {
	b := &fixture{options: o, oracle: oracle.New(oracle.Config{High: high, Low: low, Settled: 2 * time.Second, MinimumAge: minimumAge,
		Late: o.late, LastUse: time.Second, Heard: o.late / 2, Noticed: max(6*time.Second, o.late), PodsGone: podsGone, Retry: 30 * time.Second, LinesPerMinute: 10})}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	name := fmt.Sprintf("soak-%d", os.Getpid())
	if b.node, err = node.Start(ctx, node.Config{Name: name, FS: fs, SizeBytes: 768 * mib, Containerd: node.Flavor(o.flavor)}); err != nil {
		return b, err
	}
	if b.relay, err = socketrelay.Start(filepath.Join(b.node.Dir(), "relay.sock"), b.node.Socket()); err != nil {
		return b, err
	}
	if err := b.serveRegistry(); err != nil {
		return b, err
	}
	if err := b.install(ctx); err != nil {
		return b, err
	}
	if err := errors.Join(b.mountState(), b.readCapacity()); err != nil {
		return b, err
	}
	if b.memory, err = makeMemory(name + "-agent"); err != nil {
		return b, err
	}
	if b.options.agent, err = b.memory.agentIn(b.node.Dir(), b.options.agent); err != nil {
		return b, err
	}
	ended := b.oracle.OutageBegins(time.Now()) // a start logs much
	err = b.startAgent(ctx)
	ended(time.Now())
	return b, err
}

// mountState puts the state on a filesystem of its own, so that it alone can be full.
func (b *fixture) mountState() error {
	if err := os.MkdirAll(b.config.State.Directory, 0o700); err != nil {
		return err
	}
	return unix.Mount("soak", b.config.State.Directory, "tmpfs", 0, "size=16m")
}

func (b *fixture) readCapacity() error {
	u, err := b.node.Usage()
	b.capacity = u.CapacityBytes
	return err
}

// install starts the API server, and makes the agent's configuration: the shipped one, but for what
// docs/benchmarks-soak.md names.
func (b *fixture) install(ctx context.Context) error {
	i, err := agentrun.Install(ctx, b.node)
	if err != nil {
		return err
	}
	b.cp = i.ControlPlane
	b.admin, err = b.cp.Admin()
	if err != nil {
		return err
	}
	i.Config.Filesystems.PodLogs.Path = filepath.Join(b.node.Dir(), "logs", "pods")
	if b.withKubelet {
		k := peers.KubeletConfig{Node: b.node, Configuration: map[string]any{
			// It leaves images to ebb, and evicts no pods.
			"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
			"evictionHard": map[string]string{"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.inodesFree": "0%"},
		}}
		if b.kubelet, err = i.StartKubelet(ctx, k); err != nil {
			return err
		}
	}
	c, shipped := i.Config, i.Config
	c.Runtime.Socket = b.relay.Addr()
	c.Images.MinimumAge = config.Duration(minimumAge)
	c.Images.HighThresholdPercent, c.Images.LowThresholdPercent = high, low
	c.Images.Keep = []string{b.registry.Addr + "/kept/*"}
	c.Images.MaxRemovalsPerHour = "100000"
	c.Containers.StartGrace = config.Duration(startGrace)
	c.Writers.Top = 10
	c.Pods.APIServer.ListSpread = config.Duration(time.Second)
	c.ReconcileInterval = config.Duration(30 * time.Second)
	b.config = c
	b.changed, err = difference(shipped, c)
	return err
}

// startAgent starts the agent and returns when it is ready.
func (b *fixture) startAgent(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	p, err := agentrun.Start(ctx, agentrun.Options{Binary: b.options.agent, Dir: b.node.Dir(), Config: b.config, OnLine: b.line})
	if err == nil {
		b.setAgent(p)
	}
	return err
}

func (b *fixture) setAgent(p *agentrun.Process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.agent = p
}

// running returns the agent, or nil if none runs.
func (b *fixture) running() *agentrun.Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.agent
}

const crossed = "filesystem reached its high threshold"

var (
	// changes are the messages of lines that report a real change.
	changes = []string{"image removed", "reclaim run ended", "first removal done", crossed, "image kept by the last check",
		"image was pulled again after its removal", "container removed", "sandbox removed", "logs removed"}
	// ofHold are those that do so once after each crossing.
	ofHold = []string{"the low threshold cannot be reached; holding", "hold ended"}
)

// line judges one line of the agent's log.
func (b *fixture) line(l agentrun.Line) {
	if l.Message == "image removed" {
		took := time.Duration(l.Number("took_ms")) * time.Millisecond
		b.oracle.Removed(oracle.Removal{Image: l.Text("image"), Begun: l.Time.Add(-took), At: l.Time, Capacity: b.capacity,
			Available: uint64(l.Number("available_bytes")), Freed: uint64(l.Number("freed_bytes")),
			Exact: l.Text("measured_with") == "" && l.Text("freed") == "" && !strings.Contains(l.Text("detail"), "inode")})
		return
	}
	if l.Message == "container removed" {
		_, pod, _ := strings.Cut(l.Text("pod"), "/")
		b.oracle.ContainerRemoved(pod, l.Time)
	}
	if hold := b.holdChanges(l.Message); !hold && !slices.Contains(changes, l.Message) {
		b.oracle.Line(l.Message, l.Time)
	}
}

// holdChanges reports whether a message is about the begin or end of a hold that follows a crossing.
func (b *fixture) holdChanges(message string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if message == crossed {
		b.holds = len(ofHold)
	}
	if b.holds == 0 || !slices.Contains(ofHold, message) {
		return false
	}
	b.holds--
	return true
}

// present lists the images that CRI knows.
func (b *fixture) present(ctx context.Context) ([]string, error) {
	_, images := b.node.CRI()
	r, err := images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(r.Images))
	for n, i := range r.Images {
		ids[n] = i.Id
	}
	return ids, nil
}

func (b *fixture) explained(ctx context.Context) (page.Images, error) {
	p := b.running()
	if p == nil {
		return page.Images{}, errors.New("no agent runs")
	}
	return p.Images(ctx)
}

// keepLog saves the agent's log and the violations.
func (b *fixture) keepLog() error {
	to := filepath.Join(b.keep, fmt.Sprintf("node-seed-%d-%s", b.seed, time.Now().Format("0102-150405")))
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	var report strings.Builder
	for _, v := range b.oracle.Violations() {
		fmt.Fprintln(&report, v)
	}
	err := os.WriteFile(filepath.Join(to, "violations.txt"), []byte(report.String()), 0o644)
	err = errors.Join(err, benchmark.Copy(filepath.Join(to, "agent.log"), filepath.Join(b.node.Dir(), "agent.log"), 0o644))
	benchmark.Say("logs are in %s", to)
	return err
}

func (b *fixture) close() error {
	var errs []error
	if p := b.running(); p != nil {
		errs = append(errs, p.Stop())
	}
	if b.config.Kernel.PinDirectory != "" {
		errs = append(errs, agentrun.Unload(b.config))
	}
	if b.registry != nil {
		errs = append(errs, b.registry.Close())
	}
	if b.relay != nil {
		errs = append(errs, b.relay.Close())
	}
	if b.kubelet != nil {
		errs = append(errs, b.kubelet.Close())
	}
	if b.cp != nil {
		errs = append(errs, b.cp.Close())
	}
	if b.node != nil {
		errs = append(errs, b.node.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	errs = append(errs, b.memory.remove(ctx))
	return errors.Join(errs...)
}
