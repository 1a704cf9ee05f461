package beside

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

const app = "beside.test/app:1"

func (b *fixture) importApp() {
	b.Helper()
	_, err := b.node.Import(b.Context(), node.CRINamespace, node.Image{Name: app})
	b.must(err)
}

// waitPod waits for a status of a pod at the kubelet.
func (b *fixture) waitPod(name string, want func(peers.PodStatus, bool) bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*patience)
	defer cancel()
	b.must(b.kubelet.WaitPod(ctx, "default", name, want))
}

// removed waits until the agent has removed so many of a kind for a reason.
func (b *fixture) removed(kind, reason string, atLeast float64) {
	b.Helper()
	series := fmt.Sprintf(`ebb_node_workloads_removed_total{kind=%q,reason=%q}`, kind, reason)
	b.eventually(fmt.Sprintf("%g of %s", atLeast, series), func() error {
		got, err := b.agent.Metric(b.Context(), series)
		if err == nil && got < atLeast {
			err = fmt.Errorf("it is %g", got)
		}
		return err
	})
}

// A static pod that restarts again and again, is taken away, and leaves nothing;
// its kubelet goes on all the while.
func TestDeadOfAStaticPod(t *testing.T) {
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		t.Run(string(flavor), func(t *testing.T) {
			b := newFixture(t, flavor, nil, handedOver)
			b.importApp()
			b.must(b.start(t.Context()))
			prints := "i=0; while [ $i -lt 3000 ]; do echo a line of a hundred letters, more or less, of which nobody will ever read a single one, number $i; i=$((i+1)); done; sleep 0.2; false"
			spec := peers.PodSpec{Name: "crash", Image: app, Command: []string{"/bin/sh", "-c", prints}}
			b.must(b.kubelet.AddStaticPod("crash", spec.Manifest()))
			b.must(b.kubelet.AddStaticPod("lives", peers.PodSpec{Name: "lives", Image: app}.Manifest()))
			lives, crash := "lives-"+b.kubelet.NodeName(), "crash-"+b.kubelet.NodeName()
			b.waitPod(lives, peers.IsRunning)
			// The first restarts come at once, then after 10 and 20 seconds. The kubelet
			// would look for dead containers every minute.
			b.removed("container", "max_per_pod_container", 1)
			e, err := b.containers()
			b.must(err)
			kept := 0
			for _, c := range e.Containers {
				if c.Pod == "default/"+crash && c.Container != "" && c.Reason == "within_limits" {
					kept++
				}
			}
			if kept > 1 {
				t.Errorf("%d dead containers of one are within the limits: %+v", kept, e.Containers)
			}
			// The kubelet removes the log of a container only if it removes the container, too (Kubernetes issue 91765).
			b.eventually("the log of the first container to go", func() error {
				files, err := filepath.Glob(filepath.Join(b.kubelet.PodLogsDir(), "default_"+crash+"_*", "*", "*"))
				if err == nil && (len(files) == 0 || slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(filepath.Base(f), "0.log") })) {
					err = fmt.Errorf("there are %q", files)
				}
				return err
			})

			b.must(b.kubelet.RemoveStaticPod("crash"))
			b.waitPod(crash, peers.IsGone)
			b.removed("sandbox", "pod_gone", 1)
			b.removed("log_directory", "pod_gone", 1)
			logs, err := os.ReadDir(b.kubelet.PodLogsDir())
			b.must(err)
			if len(logs) != 1 || !strings.Contains(logs[0].Name(), lives) {
				t.Errorf("logs that are left: %v", logs)
			}
			b.eventually("the links to go", func() error {
				links, err := filepath.Glob(filepath.Join(b.kubelet.ContainerLogsDir(), "crash-*"))
				if err == nil && len(links) > 0 {
					err = fmt.Errorf("left are %q", links)
				}
				return err
			})
			b.waitPod(lives, peers.IsRunning)
		})
	}
}

// A container that restarts twelve times leaves as many files of logs with ebb as without: those of the kubelet's
// dead containers, and none of those that ebb removed first.
func TestLogsOfTwelveRestarts(t *testing.T) {
	const restarts, rotated = 12, 2
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		for name, with := range map[string]bool{"without ebb": false, "with ebb": true} {
			t.Run(string(flavor)+"/"+name, func(t *testing.T) {
				quick := maps.Clone(handedOver)
				quick["crashLoopBackOff"] = map[string]any{"maxContainerRestartPeriod": "1s"}
				quick["featureGates"] = map[string]any{"KubeletCrashLoopBackOffMax": true}
				quick["containerLogMaxSize"], quick["containerLogMaxFiles"] = "64Ki", rotated
				quick["containerLogMonitorInterval"] = "3s"
				b := newFixture(t, flavor, nil, quick)
				b.importApp()
				if with {
					b.must(b.start(t.Context()))
				}
				prints := "i=0; while [ $i -lt 3000 ]; do echo a line of a hundred letters, more or less, number $i; i=$((i+1)); done; sleep 0.2; false"
				spec := peers.PodSpec{Name: "crash", Image: app, Command: []string{"/bin/sh", "-c", prints}}
				b.must(b.kubelet.AddStaticPod("crash", spec.Manifest()))
				// Two containers have logs: the one that runs, or the latest that ran, and the dead one that the kubelet keeps.
				// Between an exit and the removal of the one before there are three.
				pattern := filepath.Join(b.kubelet.PodLogsDir(), "default_crash-"+b.kubelet.NodeName()+"_*", "*", "*")
				b.eventually("the logs of twelve restarts to go", func() error {
					files, err := filepath.Glob(pattern)
					of := make(map[int]bool) // attempts with files
					for _, f := range files {
						var attempt int
						if _, err := fmt.Sscanf(filepath.Base(f), "%d.log", &attempt); err != nil {
							return fmt.Errorf("%s: %w", f, err)
						}
						of[attempt] = true
					}
					latest := slices.Max(append(slices.Collect(maps.Keys(of)), 0))
					if err == nil && (latest < restarts || len(of) > 2 || len(files) > 2*rotated) {
						err = fmt.Errorf("there are %q", files)
					}
					return err
				})
			})
		}
	}
}

// Pods of an API server, by its watch. While it cannot be reached nothing is taken
// for gone.
func TestDeadByTheAPIServer(t *testing.T) {
	cp := peerstest.StartControlPlane(t, peers.Config{})
	b := newFixture(t, node.Debian, cp, handedOver)
	b.importApp()
	file, err := cp.Kubeconfig("ebb-agent", "system:masters")
	b.must(err)
	b.config.Pods = config.Default().Pods
	b.config.Pods.Source = config.PodsFromAPIServer
	b.config.Pods.APIServer = config.APIServer{Kubeconfig: file, NodeName: b.kubelet.NodeName(), ListSpread: config.Duration(time.Second)}
	b.must(b.start(t.Context()))
	admin, err := cp.Admin()
	b.must(err)
	pods := cp.URL() + "/api/v1/namespaces/default/pods"
	create := func(name string) {
		t.Helper()
		spec := peers.PodSpec{Name: name, Image: app, NodeName: b.kubelet.NodeName()}
		b.must(peers.Request(t.Context(), admin, http.MethodPost, pods, spec.Manifest(), nil))
		b.waitPod(name, peers.IsRunning)
	}
	create("one")
	create("two")
	b.must(peers.Request(t.Context(), admin, http.MethodDelete, pods+"/one", nil, nil))
	b.waitPod("one", peers.IsGone)
	b.removed("sandbox", "pod_gone", 1)
	b.removed("log_directory", "pod_gone", 1)

	// The API server goes away, and what is dead of the other pod stays.
	sandboxes, err := b.agent.Metric(t.Context(), `ebb_node_workloads_removed_total{kind="sandbox",reason="pod_gone"}`)
	b.must(err)
	b.must(cp.APIServer.Kill())
	b.eventually("the agent to miss the API server", func() error {
		e, err := b.containers()
		if err == nil && e.PodsError == "" {
			err = errors.New("it knows the pods")
		}
		return err
	})
	// The agent's pauses have their full length by then. Five minutes are those of
	// TestPodsAreNotKnown, in a bubble, or of peerstest.OutageEnv.
	b.outlive(peerstest.Outage(t, 20*time.Second))
	after, err := b.agent.Metric(t.Context(), `ebb_node_workloads_removed_total{kind="sandbox",reason="pod_gone"}`)
	b.must(err)
	if after != sandboxes {
		t.Errorf("%g sandboxes were removed while the API server was down", after-sandboxes)
	}
	b.must(cp.APIServer.Restart(t.Context()))
	b.must(peers.Request(t.Context(), admin, http.MethodDelete, pods+"/two", nil, nil))
	b.waitPod("two", peers.IsGone)
	b.removed("sandbox", "pod_gone", sandboxes+1)
}

// outlive looks, as a kubelet's probes would, at an agent whose API server is away: it is
// no reason to restart it, nor to call it not ready, and it does not grow.
func (b *fixture) outlive(d time.Duration) {
	b.Helper()
	memory := func() float64 {
		m, err := b.agent.Metric(b.Context(), "process_resident_memory_bytes")
		b.must(err)
		return m
	}
	before, pid := memory(), b.agent.PID()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(time.Second) {
		for _, page := range []string{"/healthz", "/readyz"} {
			if _, err := b.agent.Get(b.Context(), page); err != nil {
				b.Fatalf("without the API server: %v", err)
			}
		}
	}
	if known, err := b.agent.Metric(b.Context(), "ebb_node_pods_source_up"); known != 0 || err != nil {
		b.Errorf("pods_source_up is %g, %v", known, err)
	}
	if grown := memory() - before; grown > 16*mib {
		b.Errorf("it grew by %g MiB", grown/mib)
	}
	if b.agent.PID() != pid || b.count("the pods of this node are not known; none is treated as gone", "", "") != 1 {
		b.Errorf("it logs more than once that the pods are not known:\n%s", b.lastLogs())
	}
}

// If the agent may not read pods, the error names who lacks which right, and nothing is taken for gone.
func TestForbidden(t *testing.T) {
	cp := peerstest.StartControlPlane(t, peers.Config{})
	b := newFixture(t, node.Debian, cp, handedOver)
	files, err := b.kubelet.ClientFiles(peers.User{Name: "nobody-in-particular"})
	b.must(err)
	b.config.Pods.Kubelet.ClientCertificate, b.config.Pods.Kubelet.ClientKey = files.Cert, files.Key
	b.must(b.start(t.Context()))
	var e string
	b.eventually("the agent to be refused", func() error {
		c, err := b.containers()
		if e = c.PodsError; err == nil && e == "" {
			err = errors.New("no error")
		}
		return err
	})
	for _, word := range []string{"nobody-in-particular", "nodes/"} {
		if !strings.Contains(e, word) {
			t.Errorf("the error does not name %q: %s", word, e)
		}
	}
}
