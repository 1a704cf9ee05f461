package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/show"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// measureGraph measures the time of a page of all images and a page of one image together: the
// account of all images, and the explanation of one. Both are computed from what the agent has
// listed and decided.
func measureGraph(ctx context.Context, o options, f figures) error {
	for _, images := range []int{1_000, 10_000, 100_000} {
		s, v := pulled(images)
		one := v.Listed[images/2].ID
		now := v.Time
		plan := image.Decide(s, now) // the agent has it already
		var took, cpu, allocated []float64
		runtime.GC() // free what building the graph has left
		for range max(o.runs, 9) + 1 {
			if err := ctx.Err(); err != nil {
				return err
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began, used := time.Now(), cpuTime()
			all := v.Images(plan)
			e, _ := image.Why(s, one, now)
			why := v.Why(e)
			took, cpu = append(took, time.Since(began).Seconds()*1e3), append(cpu, (cpuTime()-used).Seconds()*1e3)
			runtime.ReadMemStats(&after)
			allocated = append(allocated, float64(after.TotalAlloc-before.TotalAlloc)/1e6)
			if len(all.Images) != images || why.Image.Own.Bytes != own {
				return fmt.Errorf("%d of %d images, one of which has %d bytes of its own, not %d", len(all.Images), images, why.Image.Own.Bytes, own)
			}
		}
		took, cpu = took[1:], cpu[1:] // the first one warms up
		name := fmt.Sprintf("account_%dk", images/1000)
		f.set(name+"_ms", result.Median(took))
		f.set(name+"_cpu_ms", result.Median(cpu))
		f.set(name+"_low_ms", slices.Min(took))
		f.set(name+"_high_ms", slices.Max(took))
		if images == 10_000 {
			f.set("alloc_10k_mb", result.Median(allocated))
		}
	}
	return nil
}

// cpuTime returns the CPU time of this process, including Go's garbage collector.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // never with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Each image has five layers: two of its own, and three that it shares with nine others.
const (
	layers, shared, sharers = 5, 3, 10

	layerBytes, blobBytes, block = 32 << 20, 8 << 20, 4096

	own = (layers-shared)*(layerBytes+blobBytes) + 2*block // with its manifest and configuration
)

// pulled returns a node with images as containerd has them. Every tenth image has a container.
func pulled(images int) (image.Snapshot, show.View) {
	g := graphOf(images)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := image.Snapshot{Policy: image.Policy{HighPercent: 85, LowPercent: 80}, Disk: image.Disk{CapacityBytes: 1 << 50, AvailableBytes: 1 << 49}}
	v := show.View{Time: now, Looked: now, Mode: "enforce", Known: map[string]inventory.Image{}, Records: map[string]state.Image{}, Read: map[string]float64{}}
	for i := range images {
		id, used := digest("image", i), now.Add(-time.Duration(i)*time.Minute)
		listed := inventory.Image{ID: id, References: []string{fmt.Sprintf("registry.test/team/app:%d", i)}, Roots: g.images[i : i+1], NominalBytes: layers * blobBytes}
		if i%10 == 0 {
			listed.UsedBy = []string{"container k8s.io/" + id[len("sha256:"):]}
			g.Holders = append(g.Holders, image.Holder{Kind: "container", Name: "k8s.io/" + id, Nodes: g.writable[i/10 : i/10+1]})
		}
		v.Listed = append(v.Listed, listed)
		v.Known[id], v.Records[id], v.Read[id] = listed, state.Image{LastUsed: used, Arrived: used, Observed: used}, 50
		s.Images = append(s.Images, image.Image{
			ID: id, References: listed.References, UsedBy: listed.UsedBy, Roots: listed.Roots, NominalBytes: listed.NominalBytes,
			LastUsed: used, Arrived: used, Observed: used,
		})
	}
	slices.SortFunc(v.Listed, func(a, b inventory.Image) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Images, func(a, b image.Image) int { return cmp.Compare(a.ID, b.ID) })
	s.Graph, v.Graph = g.Graph, g.Graph
	return s, v
}

// graph is a graph under construction.
type graph struct {
	image.Graph
	images    []image.NodeID          // records
	writable  []image.NodeID          // snapshots of containers, one for each tenth image
	content   map[object]image.NodeID // records
	snapshots map[object]image.NodeID
}

// graphOf builds a graph with its nodes in the order of runtime/containerd. First come the records
// of images by name, then those of content with their blobs by digest, then snapshots by chain ID,
// as they are read. Then it arranges the nodes.
func graphOf(images int) *graph {
	g := &graph{}
	for range images {
		g.images = append(g.images, g.node(image.Node{Kind: image.NodeRecord}))
	}
	g.place(images)
	for i := range images {
		g.link(i)
		if i%10 == 0 {
			g.writable = append(g.writable, g.node(image.Node{Kind: image.NodeSnapshot, Refs: []image.NodeID{g.snapshots[layerOf(i, layers-1)]}}))
		}
	}
	place := image.Arrange(g.Nodes)
	for _, ids := range [][]image.NodeID{g.images, g.writable} {
		for i, id := range ids {
			ids[i] = place[id]
		}
	}
	return g
}

// object is a layer of an image. Layer -1 is the image's manifest, and layer -2 its configuration.
type object struct{ image, layer int }

// layerOf returns a layer of image i. A shared layer is that of the first image that has it.
func layerOf(i, layer int) object {
	if layer >= 0 && layer < shared {
		i -= i % sharers
	}
	return object{i, layer}
}

func digest(kind string, key any) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(fmt.Append(nil, kind, key)))
}

func (g *graph) node(n image.Node) image.NodeID {
	g.Nodes = append(g.Nodes, n)
	return image.NodeID(len(g.Nodes) - 1)
}

// place creates the nodes of content and snapshots, in the order of their names.
func (g *graph) place(images int) {
	byName := map[string]object{}
	for i := range images {
		for l := -2; l < layers; l++ {
			o := layerOf(i, l)
			byName[digest("", o)] = o
		}
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	g.content, g.snapshots = map[object]image.NodeID{}, map[object]image.NodeID{}
	for _, name := range names {
		o, bytes := byName[name], uint64(block)
		if o.layer >= 0 {
			bytes = blobBytes
		}
		g.content[o] = g.node(image.Node{Kind: image.NodeRecord})
		blob := g.node(image.Node{Kind: image.NodeBlob, Bytes: bytes, Inodes: 1})
		g.refer(g.content[o], blob)
	}
	slices.Reverse(names) // chain IDs have another order than digests
	for _, name := range names {
		if o := byName[name]; o.layer >= 0 {
			g.snapshots[o] = g.node(image.Node{Kind: image.NodeSnapshot, Bytes: layerBytes, Inodes: 100})
		}
	}
}

func (g *graph) refer(from image.NodeID, to ...image.NodeID) {
	g.Nodes[from].Refs = append(g.Nodes[from].Refs, to...)
}

// link connects the nodes of an image: its record with its manifest, the manifest with the
// configuration and the layers, the configuration with the topmost snapshot, and each snapshot with
// the one below.
func (g *graph) link(i int) {
	manifest, config := object{i, -1}, object{i, -2}
	g.refer(g.images[i], g.content[manifest])
	g.refer(g.content[manifest], g.content[config])
	for l := range layers {
		o := layerOf(i, l)
		g.refer(g.content[manifest], g.content[o])
		if snapshot := g.snapshots[o]; l > 0 && len(g.Nodes[snapshot].Refs) == 0 {
			g.refer(snapshot, g.snapshots[layerOf(i, l-1)])
		}
	}
	g.refer(g.content[config], g.snapshots[layerOf(i, layers-1)])
}
