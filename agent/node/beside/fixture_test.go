package beside

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/workloads"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

const (
	mib      = 1 << 20
	patience = 3 * time.Minute
)

// handedOver is a kubelet that leaves images to ebb, and whose eviction manager is
// off: on containerd 1.6, where nothing is pinned, it removes the sandbox image, too.
var handedOver = map[string]any{
	"imageGCHighThresholdPercent": 100,
	"evictionHard": map[string]any{
		"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
	},
	// So that static pods are synced again soon, and their end is reported soon.
	"fileCheckFrequency": "1s", "syncFrequency": "2s",
}

// fixture is a node with a real kubelet, and an agent that asks it for its pods.
type fixture struct {
	*testing.T
	node    *node.Node
	kubelet *peers.Kubelet
	config  config.Config
	agent   *agentrun.Process

	mu   sync.Mutex
	logs []agentrun.Line
}

func newFixture(t *testing.T, flavor node.Flavor, cp *peers.ControlPlane, kubelet map[string]any) *fixture {
	t.Helper()
	peerstest.Need(t)
	n := nodetest.Start(t, node.Config{Containerd: flavor, SizeBytes: 320 * mib})
	k := peerstest.StartKubelet(t, peers.KubeletConfig{Node: n, ControlPlane: cp, Configuration: kubelet})
	b := &fixture{T: t, node: n, kubelet: k, config: agentrun.ConfigFor(n)}
	b.config.Images.MinimumAge, b.config.Images.MaxRemovalsPerHour = 0, "100000"
	b.config.Filesystems.Kubelet.Path, b.config.Filesystems.PodLogs.Path = k.RootDir(), k.PodLogsDir()
	b.config.Containers.LogLinks = k.ContainerLogsDir()
	b.config.Containers.StartGrace = config.Duration(2 * time.Second)
	b.askKubelet()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines of the agent's log:\n%s", b.lastLogs())
		}
		if b.agent != nil {
			if err := b.agent.Stop(); err != nil {
				t.Errorf("stop agent: %v", err)
			}
		}
		if err := agentrun.Unload(b.config); err != nil {
			t.Errorf("unload: %v", err)
		}
	})
	return b
}

// askKubelet makes the kubelet the source of pods.
func (b *fixture) askKubelet() {
	b.Helper()
	files, err := b.kubelet.ClientFiles(peers.User{Name: "ebb-agent", Groups: []string{"system:masters"}})
	b.must(err)
	b.config.Pods.Source = config.PodsFromKubelet
	b.config.Pods.Kubelet = config.PodsKubelet{
		URL: b.kubelet.URL(), ClientCertificate: files.Cert, ClientKey: files.Key, CertificateAuthority: files.CA,
	}
}

func (b *fixture) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *fixture) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p, err := agentrun.Start(ctx, agentrun.Options{Binary: binary, Dir: b.node.Dir(), Config: b.config, OnLine: func(l agentrun.Line) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.logs = append(b.logs, l)
	}})
	if err == nil {
		b.agent = p
	}
	return err
}

// lastLogs returns the last lines of the agent's log.
func (b *fixture) lastLogs() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var text strings.Builder
	for _, l := range b.logs[max(0, len(b.logs)-60):] {
		fmt.Fprintln(&text, l.Time.Format("15:04:05.000"), l.Level, l.Message, l.Fields)
	}
	return text.String()
}

// count returns how often the agent logged a message with such a field.
func (b *fixture) count(message, field, value string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range b.logs {
		if l.Message == message && (field == "" || l.Text(field) == value) {
			n++
		}
	}
	return n
}

// eventually waits until f returns no error.
func (b *fixture) eventually(what string, f func() error) {
	b.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("waited in vain for %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// containers returns the agent's report on dead containers.
func (b *fixture) containers() (workloads.Explanation, error) {
	var e workloads.Explanation
	body, err := b.agent.Get(b.Context(), "/containers")
	if err == nil {
		err = json.Unmarshal([]byte(body), &e)
	}
	return e, err
}
