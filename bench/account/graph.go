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

// measureGraph measures what a page of all images and one on a single image take together, from
// what the agent has listed and decided: the account of all, and the explanation of one.
func measureGraph(ctx context.Context, o options, f figures) error {
	for _, images := range []int{1_000, 10_000, 100_000} {
		s, v := pulled(images)
		one := v.Listed[images/2].ID
		now := v.Time
		plan := image.Decide(s, now) // which the agent has already
		var took, cpu, allocated []float64
		runtime.GC() // of what has made the graph
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

// cpuTime is that of this process, with what the garbage collector takes.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // never with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What an image has: five layers, two of which are its own.
const (
	layers, shared, sharers = 5, 3, 10

	layerBytes, blobBytes, block = 32 << 20, 8 << 20, 4096

	own = (layers-shared)*(layerBytes+blobBytes) + 2*block // with its manifest and configuration
)

// pulled is a node with images as containerd has them. A tenth have a container.
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

// graph is one that is being built.
type graph struct {
	image.Graph
	images    []image.NodeID          // records
	writable  []image.NodeID          // snapshots of containers, one for each tenth image
	content   map[object]image.NodeID // records
	snapshots map[object]image.NodeID
}

// graphOf has its nodes where runtime/containerd puts them: first, records of images by name, those
// of content with their blobs by digest, and snapshots by chain, as they are read; then arranged.
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

// object is a layer, or with a layer of -1 and -2 the manifest and the configuration of an image.
type object struct{ image, layer int }

// layerOf is a layer of an image: of the shared ones, that of the first image that has it.
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

// place makes content and snapshots, in the order of their names.
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
	slices.Reverse(names) // chains have other digests
	for _, name := range names {
		if o := byName[name]; o.layer >= 0 {
			g.snapshots[o] = g.node(image.Node{Kind: image.NodeSnapshot, Bytes: layerBytes, Inodes: 100})
		}
	}
}

func (g *graph) refer(from image.NodeID, to ...image.NodeID) {
	g.Nodes[from].Refs = append(g.Nodes[from].Refs, to...)
}

// link has an image's record lead to its manifest, that to its configuration and layers, the
// configuration to the topmost snapshot, and each snapshot to the one below.
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
