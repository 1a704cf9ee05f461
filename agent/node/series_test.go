package node

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/stats"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/cgroup/cgrouptest"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// mostSamples is how many samples a scrape of a typical node may have: they are multiplied
// by the number of nodes.
const mostSamples = 200

// samples counts those of a scrape, as Prometheus does: the Go runtime's, the process's and
// the page's own included.
func (w *world) samples() (n int, text string) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	program.Metrics(w.agent.registry).ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n, answer.Body.String()
}

// shippedConfig is what the chart gives the agent if nobody changes a value.
func shippedConfig(t *testing.T) config.Config {
	t.Helper()
	manifest, err := os.ReadFile("../../deploy/manifests/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		var object struct {
			Kind string            `json:"kind"`
			Data map[string]string `json:"data"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind == "ConfigMap" {
			cfg, err := config.Parse([]byte(object.Data["agent.yaml"]))
			if err != nil {
				t.Fatal(err)
			}
			return cfg
		}
	}
	t.Fatal("no ConfigMap in the manifests")
	return config.Config{}
}

// ship gives the agent the chart's configuration, but for what a test cannot have.
func (w *world) ship() {
	cfg := shippedConfig(w.t)
	cfg.State, cfg.Server = w.cfg.State, w.cfg.Server
	cfg.Containers.Logs = false
	w.cfg = cfg
	for _, object := range []string{"lastuse", "heat", "usage_ext4", "writers", "writers_ext4"} {
		w.kernel.status = append(w.kernel.status, bpf.ProgramStatus{Object: object, Attached: true})
	}
}

// live is what an ordinary node has: images and running containers, some containers that
// exited and some that wait for their end.
func (w *world) live() {
	for i := range 40 {
		w.add(fmt.Sprint("image-", i), 2)
		w.rt.Run("k8s.io", fmt.Sprint("c-", i), fmt.Sprint("image-", i))
		name := fmt.Sprint("web-", i)
		w.rt.AddSandbox(container.Sandbox{ID: "s-" + name, Pod: pod(name), Created: time.Now().Add(-time.Hour)})
		w.rt.AddContainer(w.exited("e-"+name, name, 0))
	}
	w.add("unused", 2)
	w.up()
	w.pass(time.Hour)
}

// Whether kubelet and logs share the disk of the images or have one, a scrape stays small.
func TestSamplesOfATypicalNode(t *testing.T) {
	for disks, dev := range map[string]uint64{"one disk": fakeDev, "two disks": otherDev} {
		inWorld(t, func(w *world) {
			w.ship()
			for _, dir := range []string{kubeletDir, logsDir} {
				w.disk.mount(dir, dev, "ext4", func() image.Disk {
					return image.Disk{CapacityBytes: size, AvailableBytes: size, Inodes: 1000, InodesAvailable: 900}
				})
			}
			w.live()
			n, text := w.samples()
			t.Logf("%s: %d samples", disks, n)
			if n > mostSamples {
				t.Errorf("%s: %d samples, more than %d:\n%s", disks, n, mostSamples, text)
			}
			for _, name := range []string{"ebb_node_filesystem_time_to_full_seconds", "ebb_node_images_by_last_use", "ebb_node_probe_degraded", "ebb_node_layer_read_bytes", "process_", "go_", "promhttp_"} {
				if !strings.Contains(text, "\n"+name) {
					t.Errorf("%s: no series of %s: this is no ordinary node", disks, name)
				}
			}
		})
	}
}

// However many images, containers and writers there are, a scrape has no more samples: only
// writers are named, as many as the configuration allows.
func TestSamplesDoNotGrowWithTheNode(t *testing.T) {
	const top = 10
	count := map[int]int{}
	for _, things := range []int{top, 300} {
		inWorld(t, func(w *world) {
			w.ship()
			w.cfg.Writers.Top = top
			w.rt.SetDisk(1000*size, 0, 10_000_000)
			paths, list, writers := cgrouptest.Paths{}, []inventory.Container{}, []bpf.Writer{}
			for i := range things {
				id := fmt.Sprintf("%064x", i)
				w.add(fmt.Sprint("image-", i), 2)
				writers = append(writers, bpf.Writer{Cgroup: uint64(i), Grown: uint64(i)})
				paths[uint64(i)] = "/kubepods/" + id
				list = append(list, inventory.Container{Namespace: "k8s.io", ID: id, Pod: inventory.Pod{Namespace: "shop", Name: fmt.Sprint("web-", i), Container: "main"}})
			}
			w.cgroups = paths
			w.kernel.SetWriters(writers...)
			w.up()
			w.pass(time.Minute)
			w.agent.writers.Review(list, []stats.Mount{{Dev: fakeDev, Type: "ext4"}}, func(uint64) bool { return false })
			count[things], _ = w.samples()
		})
	}
	t.Logf("%d samples", count[300])
	// Each writer has three series.
	if most := mostSamples + 3*top; count[300] != count[top] || count[300] > most {
		t.Errorf("%d samples with 300 of everything, %d with %d; at most %d", count[300], count[top], top, most)
	}
}
