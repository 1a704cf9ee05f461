package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/stats"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/tools/node"
)

// heat asks the agent how much of an image was read.
func (b *fixture) heat(name string) (stats.HeatExplanation, stats.ImageHeat) {
	b.Helper()
	body, err := b.agent.Get(b.ctx, "/heat")
	b.must(err)
	var e stats.HeatExplanation
	b.must(json.Unmarshal([]byte(body), &e))
	i := slices.IndexFunc(e.Images, func(i stats.ImageHeat) bool { return i.ID == b.scenario.ids[name] })
	if i < 0 || e.Unknown != "" {
		b.Fatalf("image %s is not in %s", name, body)
	}
	return e, e.Images[i]
}

// awaitLayers waits until the agent has found an image's layers. The agent knows whether
// they are read once a container has run.
func (b *fixture) awaitLayers(name string, layers int) {
	b.Helper()
	b.eventually("the layers of "+name, func() error {
		_, i := b.heat(name)
		if len(i.Layers) != layers || slices.ContainsFunc(i.Layers, func(l stats.ReadLayer) bool { return strings.Contains(l.Unknown, "directory") }) {
			return fmt.Errorf("they are %+v", i.Layers)
		}
		return nil
	})
}

// wantRead holds a layer, the topmost being 0, against the files that were read.
func (b *fixture) wantRead(what, name string, layer int, bytes int64, files ...string) {
	b.Helper()
	_, i := b.heat(name)
	if l := i.Layers[layer]; !l.Known || *l.ReadFiles != uint64(len(files)) || *l.ReadBytes != uint64(bytes) || l.AtLeast || l.Bytes < *l.ReadBytes {
		b.Errorf("%s: layer %d of %s is %+v, want %d files, %d bytes", what, layer, name, l, len(files), bytes)
	}
}

// files are some files of a layer, and what they take on the disk, as seen from
// the container.
func (c *scripted) files(layer string, numbers ...int) (paths []string, bytes int64) {
	c.Helper()
	ctx := namespaces.WithNamespace(c.ctx, node.CRINamespace)
	container, err := c.node.Client().LoadContainer(ctx, c.id)
	c.must(err)
	task, err := container.Task(ctx, nil)
	c.must(err)
	for _, n := range numbers {
		path := fmt.Sprintf("/data/%s/%d", layer, n)
		var st unix.Stat_t
		c.must(unix.Stat(fmt.Sprintf("/proc/%d/root%s", task.Pid(), path), &st))
		paths, bytes = append(paths, path), bytes+st.Blocks*512
	}
	return paths, bytes
}

func (c *scripted) read(paths ...string) { c.do("cat " + strings.Join(paths, " ") + " >/dev/null") }

// TestLayerHeat: which files of which layers of an image its containers read, and
// nobody else's reading.
func TestLayerHeat(t *testing.T) {
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		shared := node.Layer{Seed: "shared", Bytes: 3 * mib, Files: 20}
		app := node.Image{Name: ref("app"), Layers: []node.Layer{shared, {Seed: "own", Bytes: mib, Files: 10}}}
		other := node.Image{Name: ref("other"), Layers: []node.Layer{shared}}
		b := newFixture(t, flavor, app, other)
		b.config.Kernel.LayerHeat = config.HeatReads
		b.start()
		b.awaitLayers("app", 3)
		if _, i := b.heat("app"); i.Known || i.ReadPercent != nil || !strings.Contains(i.Unknown, "sandbox") {
			t.Errorf("before a container ran it is %+v", i)
		}
		web := b.runScripted("web")
		t.Cleanup(web.remove)

		own, ownBytes := web.files("own", 1, 4, 7)
		some, someBytes := web.files("shared", 0, 2, 3, 5, 8, 13)
		web.read(append(own, some...)...)
		web.read(own...)
		b.wantRead("reading", "app", 0, ownBytes, own...)
		b.wantRead("reading", "app", 1, someBytes, some...)
		b.wantRead("reading", "other", 0, someBytes, some...) // the same directory
		if e, i := b.heat("app"); !i.Known || *i.Layers[2].ReadFiles == 0 || *i.ReadPercent <= 0 || *i.ReadPercent >= 100 || e.Tier == bpf.HeatNone {
			t.Errorf("with the shell: %+v", i)
		}

		// The host reads everything there is.
		readTree(t, filepath.Join(b.node.Dir(), "mnt"))
		b.wantRead("a backup of the host", "app", 0, ownBytes, own...)
		b.wantRead("a backup of the host", "app", 1, someBytes, some...)
		// What the container writes is not the image's, nor is what it copies up.
		web.do("echo x >/data/own/new; cat /data/own/new >/dev/null")
		b.wantRead("writing", "app", 0, ownBytes, own...)

		// While no agent runs the kernel goes on.
		b.kill()
		more, moreBytes := web.files("shared", 19)
		web.read(more...)
		b.start()
		b.awaitLayers("app", 3)
		b.wantRead("a time without agent", "app", 1, someBytes+moreBytes, append(some, more...)...)
		tier, _ := b.heat("app")
		if got := b.metric(fmt.Sprintf("ebb_node_layer_heat_info{tier=%q}", tier.Tier)); got != 1 {
			t.Errorf("the tier's metric is %g", got)
		}
		if _, i := b.heat("other"); b.metric("ebb_node_layer_read_bytes") < float64(i.ReadBytes) {
			t.Errorf("bytes read are %g, of one image %d", b.metric("ebb_node_layer_read_bytes"), i.ReadBytes)
		}
	})
}

// readTree reads all files below a directory.
func readTree(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a live runtime's files come and go
		}
		if _, err := os.ReadFile(path); err == nil {
			files++
		}
		return nil
	})
	if err != nil || files < 30 {
		t.Fatalf("read %d files: %v", files, err)
	}
}

// TestLayerHeatOnErofs: a layer is a filesystem of its own there, mounted with the
// container.
func TestLayerHeatOnErofs(t *testing.T) {
	if kinds, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(kinds), "\terofs\n") {
		t.Skipf("SKIPPED: this kernel has no erofs (%v)", err)
	}
	shared := node.Layer{Seed: "shared", Bytes: 3 * mib, Files: 20}
	app := node.Image{Name: ref("app"), Layers: []node.Layer{shared, {Seed: "own", Bytes: mib, Files: 10}}}
	b := newFixtureWith(t, node.Config{Containerd: node.V2, Snapshotter: "erofs"}, app)
	b.config.Kernel.LayerHeat = config.HeatReads
	b.start()
	b.awaitLayers("app", 3)
	web := b.runScripted("web")
	t.Cleanup(web.remove)
	own, ownBytes := web.files("own", 1, 4, 7)
	some, someBytes := web.files("shared", 0, 2, 3)
	web.read(append(own, some...)...)
	b.wantRead("reading", "app", 0, ownBytes, own...)
	b.wantRead("reading", "app", 1, someBytes, some...)
	web.remove()
	// Last use goes by it, too.
	b.eventually("the last use of app", func() error {
		i, err := b.verdict(b.scenario.ids["app"])
		if err == nil && i.LastUsed == nil {
			err = fmt.Errorf("it is not known: %+v", i)
		}
		return err
	})
}

// TestNativeSnapshotter: layers are copied into each container's root, and nobody
// reads them. The agent reports that; last use comes from the runtime's events.
func TestNativeSnapshotter(t *testing.T) {
	b := newFixtureWith(t, node.Config{Containerd: node.V2, Snapshotter: "native"}, plains("a", 4)...)
	b.start()
	b.use("a2", "a0", "a3", "a1")
	b.awaitOrder()
	body, err := b.agent.Get(b.ctx, "/heat")
	b.must(err)
	var e stats.HeatExplanation
	b.must(json.Unmarshal([]byte(body), &e))
	for _, i := range e.Images {
		if i.Known {
			t.Errorf("the layers of %s are reported as known: %+v", i.ID, i)
		}
	}
}
