package containerd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/cri"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	refContent  = "containerd.io/gc.ref.content"
	refSnapshot = "containerd.io/gc.ref.snapshot.overlayfs"
	refImage    = "containerd.io/gc.ref.image"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// held returns the names of the blobs and snapshots that stay without image
// "id", sorted.
func held(r *reading, id string) []string {
	inv, names := r.inventory(), map[image.NodeID]string{}
	for o, id := range r.graph(r.entries()).index { // the same records give the same nodes
		names[id] = o.name
	}
	var todo []image.NodeID
	for _, h := range inv.Graph.Holders {
		todo = append(todo, h.Nodes...)
	}
	for _, i := range inv.Images {
		if i.ID != id {
			todo = append(todo, i.Roots...)
		}
	}
	seen := map[image.NodeID]bool{}
	var stay []string
	for len(todo) > 0 {
		n := todo[0]
		todo = todo[1:]
		if seen[n] {
			continue
		}
		seen[n] = true
		node := inv.Graph.Nodes[n]
		if node.Kind != image.NodeRecord {
			stay = append(stay, names[n])
		}
		todo = append(todo, node.Refs...)
	}
	return sortedSet(stay)
}

// oneImage is an image of two layers: manifest m, config c, layers l1 and l2,
// snapshots s1 and s2.
func oneImage() *reading {
	return &reading{
		now:     now,
		sandbox: sandboxImage{pinned: true},
		images:  []cri.Image{{ID: "i"}},
		spaces: []space{{
			name:   criNamespace,
			images: []imageRecord{{name: "a:1", target: "m", content: imageContent{id: "i", chain: "s2"}}},
			contents: []contentRecord{
				{digest: "m", bytes: 1, labels: map[string]string{refContent + ".config": "c", refContent + ".l.0": "l1", refContent + ".l.1": "l2"}},
				{digest: "c", bytes: 1, labels: map[string]string{refSnapshot: "s2"}},
				{digest: "l1", bytes: 10}, {digest: "l2", bytes: 20},
			},
			snapshots: []snapshotRecord{
				{snapshotter: "overlayfs", key: "s1", committed: true, bytes: 100},
				{snapshotter: "overlayfs", key: "s2", parent: "s1", committed: true, bytes: 200},
			},
		}},
	}
}

func TestHeld(t *testing.T) {
	tests := []struct {
		name   string
		change func(r *reading, s *space)
		want   string // what stays, "snapshotter/" left out
	}{
		{"nothing", func(*reading, *space) {}, ""},
		{"another CRI image", func(r *reading, s *space) {
			r.images = append(r.images, cri.Image{ID: "j"})
			s.images = append(s.images, imageRecord{name: "b:1", target: "m2", content: imageContent{id: "j", chain: "s1"}})
			s.contents = append(s.contents, contentRecord{digest: "m2", labels: map[string]string{refContent: "l1", refSnapshot: "s1"}})
		}, "l1 m2 s1"},
		{"an image that the CRI does not know", func(r *reading, s *space) {
			s.images = append(s.images, imageRecord{name: "b:1", target: "l1"})
		}, "l1"},
		{"the same, expired", func(r *reading, s *space) {
			s.images = append(s.images, imageRecord{name: "b:1", target: "l1", labels: map[string]string{labelExpire: "2020-01-01T00:00:00Z"}})
		}, ""},
		{"a lease on content", func(r *reading, s *space) {
			s.leases = []leaseRecord{{id: "x", resources: []leaseResource{{kindContent, "m"}}}}
		}, "c l1 l2 m s1 s2"},
		{"a flat lease on content", func(r *reading, s *space) {
			s.leases = []leaseRecord{{id: "x", labels: map[string]string{labelFlat: ""}, resources: []leaseResource{{kindContent, "m"}}}}
		}, "m"},
		{"an expired lease", func(r *reading, s *space) {
			s.leases = []leaseRecord{{id: "x", labels: map[string]string{labelExpire: "2020-01-01T00:00:00Z"}, resources: []leaseResource{{kindContent, "m"}}}}
		}, ""},
		{"our own lease", func(r *reading, s *space) {
			s.leases = []leaseRecord{{id: "x", labels: map[string]string{ownLabel: "1"}, resources: []leaseResource{{kindSnapshot, "overlayfs/s2"}}}}
		}, ""},
		{"a lease on a snapshot", func(r *reading, s *space) {
			s.leases = []leaseRecord{{id: "x", resources: []leaseResource{{kindSnapshot, "overlayfs/s1"}}}}
		}, "s1"},
		{"a lease on the image's record: goes with the record", func(r *reading, s *space) {
			s.leases = []leaseRecord{{id: "x", resources: []leaseResource{{kindImage, "a:1"}}}}
		}, ""},
		{"a flat lease on the image's record", func(r *reading, s *space) {
			s.leases = []leaseRecord{{id: "x", labels: map[string]string{labelFlat: ""}, resources: []leaseResource{{kindImage, "a:1"}}}}
		}, ""},
		{"a flat lease on another image's record", func(r *reading, s *space) {
			s.images = append(s.images, imageRecord{name: "b:1", target: "m", labels: map[string]string{labelExpire: "2020-01-01T00:00:00Z"}})
			s.leases = []leaseRecord{{id: "x", labels: map[string]string{labelFlat: ""}, resources: []leaseResource{{kindImage, "b:1"}}}}
		}, "m"},
		{"a lease on what is not there", func(r *reading, s *space) {
			s.leases = []leaseRecord{{id: "x", resources: []leaseResource{{kindImage, "zz"}, {kindContent, "zz"}, {kindSnapshot, "zz"}}}}
		}, ""},
		{"a reference to the image's record", func(r *reading, s *space) {
			s.contents = append(s.contents, contentRecord{digest: "x", labels: map[string]string{labelRoot: "", refImage: "a:1"}})
		}, "x"},
		{"a container's snapshot", func(r *reading, s *space) {
			s.snapshots = append(s.snapshots, snapshotRecord{snapshotter: "overlayfs", key: "rw", parent: "s2"})
			s.containers = []containerRecord{{id: "c1", snapshotter: "overlayfs", snapKey: "rw"}}
		}, "rw s1 s2"},
		{"a container's label", func(r *reading, s *space) {
			s.containers = []containerRecord{{id: "c1", labels: map[string]string{refContent: "l2"}}}
		}, "l2"},
		{"a bare snapshot, which containerd would collect", func(r *reading, s *space) {
			s.snapshots = append(s.snapshots, snapshotRecord{snapshotter: "overlayfs", key: "rw", parent: "s2"})
		}, ""},
		{"the same as a root", func(r *reading, s *space) {
			s.snapshots = append(s.snapshots, snapshotRecord{snapshotter: "overlayfs", key: "rw", parent: "s2", labels: map[string]string{labelRoot: "1"}})
		}, "rw s1 s2"},
		{"a back reference to a container", func(r *reading, s *space) {
			s.containers = []containerRecord{{id: "c1"}}
			s.snapshots[1].labels = map[string]string{"containerd.io/gc.bref.container": "c1"}
		}, "s1 s2"},
		{"a condition", func(r *reading, s *space) {
			s.snapshots = append(s.snapshots, snapshotRecord{snapshotter: "overlayfs", key: "lazy"})
			s.contents = append(s.contents, contentRecord{digest: "x", labels: map[string]string{labelRoot: "", labelCondition + ".overlayfs": "usedat<1h|lazy"}})
		}, "lazy x"},
		{"a sandbox's label", func(r *reading, s *space) {
			s.sandboxes = []sandboxRecord{{id: "p", labels: map[string]string{refSnapshot: "s1", "containerd.io/gc.bref.content": "l2"}}}
		}, "s1"},
		{"another namespace has a record of the blob", func(r *reading, s *space) {
			r.spaces = append(r.spaces, space{name: "other",
				images:   []imageRecord{{name: "a:1", target: "m", content: imageContent{id: "i", chain: "s2"}}},
				contents: []contentRecord{{digest: "m", bytes: 1, labels: map[string]string{refContent: "l1", refSnapshot: "s2"}}, {digest: "l1", bytes: 10}},
			})
		}, "l1 m"},
		{"a cycle", func(r *reading, s *space) {
			s.contents[2].labels = map[string]string{refContent: "m"}
			s.contents[0].labels["containerd.io/gc.bref.content"] = "m"
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := oneImage()
			tt.change(r, &r.spaces[0])
			got := strings.ReplaceAll(strings.Join(held(r, "i"), " "), "overlayfs/", "")
			if got != tt.want {
				t.Errorf("stays %q, want %q", got, tt.want)
			}
			if own, want := account(r).Images[0].Own, ownOf(r, "i"); own != want {
				t.Errorf("its own %v, want %v", own, want)
			}
			// With the image everything of it stays, always.
			if all := held(r, ""); len(all) < 6 {
				t.Errorf("with the image only %q stays", all)
			}
		})
	}
}

func TestEqualNamesInTwoNamespaces(t *testing.T) {
	r := oneImage()
	other := oneImage().spaces[0]
	other.name = "other"
	r.spaces = append(r.spaces, other)
	inv := r.inventory()
	count := map[image.NodeKind]int{}
	for _, n := range inv.Graph.Nodes {
		count[n.Kind]++
	}
	// Blobs once, snapshots and records per namespace.
	if count[image.NodeBlob] != 4 || count[image.NodeSnapshot] != 4 || count[image.NodeRecord] != 10 {
		t.Errorf("nodes: %v", count)
	}
	if layers := inv.Images[0].Layers; len(layers) != 2 || layers[0].Namespace != criNamespace || layers[1].Namespace != "other" {
		t.Errorf("layers: %+v", layers)
	}
}

func TestBlocked(t *testing.T) {
	r := oneImage()
	for _, pinned := range []bool{false, true} {
		r.sandbox = sandboxImage{pinned: pinned}
		if r.inventory().Blocked == "" {
			t.Errorf("not blocked with an unknown sandbox image, pinned by the runtime: %v", pinned)
		}
	}
	for _, s := range []sandboxImage{{name: "a:1"}, {seen: "a:1", pinned: true}} {
		r.sandbox = s
		if inv := r.inventory(); inv.Blocked != "" || !inv.Images[0].Sandbox {
			t.Errorf("%+v: %q, %+v", s, inv.Blocked, inv.Images[0])
		}
	}
	r.sandbox = sandboxImage{pinned: true}
	r.images[0].Pinned = true
	if r.inventory().Blocked != "" {
		t.Error("blocked although an image is pinned")
	}
}

func TestImagesWithoutCompleteRecord(t *testing.T) {
	r := oneImage()
	r.spaces[0].images[0].content = imageContent{}
	if inv := r.inventory(); len(inv.Images) != 0 || len(inv.Graph.Holders) != 1 {
		t.Errorf("images %+v, holders %+v", inv.Images, inv.Graph.Holders)
	}
}

func TestRuntimeListsAnImageTwice(t *testing.T) {
	r := oneImage()
	r.images = append(r.images, r.images[0])
	if inv := r.inventory(); len(inv.Images) != 1 {
		t.Errorf("images %+v", inv.Images)
	}
}

func TestOwnViewIsNoUse(t *testing.T) {
	own := snapshotRecord{snapshotter: "overlayfs", key: viewPrefix + "1", parent: "s2", labels: map[string]string{ownLabel: "1"}}
	for _, tt := range []struct {
		name string
		snap snapshotRecord
		used bool
	}{
		{"ours", own, false},
		{"our name, but not our label", snapshotRecord{snapshotter: "overlayfs", key: viewPrefix + "1", parent: "s2"}, true},
		{"our label, but not our name", snapshotRecord{snapshotter: "overlayfs", key: "x", parent: "s2", labels: own.labels}, true},
		{"on another layer", snapshotRecord{snapshotter: "overlayfs", key: "x", parent: "s1"}, false},
	} {
		r := oneImage()
		r.spaces[0].snapshots = append(r.spaces[0].snapshots, tt.snap)
		if used := len(r.inventory().Images[0].UsedBy) > 0; used != tt.used {
			t.Errorf("%s: used %v", tt.name, used)
		}
	}
}

// Whatever containerd returns, the graph is sound, each image comes once, and
// nothing panics.
func TestAnyReading(t *testing.T) {
	word := rapid.SampledFrom([]string{"", "a", "b", "m", "s", "overlayfs", "overlayfs/a", "/", "a\nb", viewPrefix + "x"})
	label := rapid.SampledFrom([]string{
		refContent, refContent + ".x", refImage, refSnapshot, "containerd.io/gc.ref.snapshot.", labelRoot, labelExpire, labelFlat,
		"containerd.io/gc.bref.image", "containerd.io/gc.bref.snapshot.overlayfs", "containerd.io/gc.bref.container",
		labelCondition + ".overlayfs", ownLabel, "io.cri-containerd.pinned",
	})
	labels := rapid.MapOfN(label, word, 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		some := func(what string, add func()) {
			for range rapid.IntRange(0, 5).Draw(t, what) {
				add()
			}
		}
		draw := func(what string) string { return word.Draw(t, what) }
		r := &reading{now: now, criImage: map[string]string{draw("cri container"): draw("image")}}
		some("cri images", func() { r.images = append(r.images, cri.Image{ID: draw("id")}) })
		some("spaces", func() {
			s := space{name: rapid.SampledFrom([]string{criNamespace, "other"}).Draw(t, "space")}
			some("images", func() {
				s.images = append(s.images, imageRecord{name: draw("name"), target: draw("target"),
					labels: labels.Draw(t, "labels"), content: imageContent{draw("id"), draw("chain")}})
			})
			some("contents", func() {
				s.contents = append(s.contents, contentRecord{digest: draw("digest"), labels: labels.Draw(t, "labels")})
			})
			some("snapshots", func() {
				s.snapshots = append(s.snapshots, snapshotRecord{snapshotter: draw("snapshotter"), key: draw("key"), parent: draw("parent"),
					committed: rapid.Bool().Draw(t, "committed"), labels: labels.Draw(t, "labels")})
			})
			some("containers", func() {
				s.containers = append(s.containers, containerRecord{id: draw("id"), image: draw("image"), snapshotter: draw("snapshotter"),
					snapKey: draw("key"), labels: labels.Draw(t, "labels")})
			})
			some("leases", func() {
				s.leases = append(s.leases, leaseRecord{id: draw("id"), labels: labels.Draw(t, "labels"),
					resources: []leaseResource{{objectKind(rapid.IntRange(0, 5).Draw(t, "kind")), draw("name")}}})
			})
			some("ingests", func() { s.ingests = append(s.ingests, ingestRecord{ref: draw("ref"), updated: now}) })
			r.spaces = append(r.spaces, s)
		})
		checkSound(t, r.inventory())
	})
}

func checkSound(t *rapid.T, inv *inventory.Inventory) {
	size := image.NodeID(len(inv.Graph.Nodes))
	check := func(what string, ids []image.NodeID) {
		if slices.ContainsFunc(ids, func(id image.NodeID) bool { return id >= size }) {
			t.Fatalf("%s leads out of the graph", what)
		}
	}
	for id, n := range inv.Graph.Nodes {
		check(fmt.Sprint("node ", id), n.Refs)
	}
	for _, h := range slices.Concat(inv.Graph.Holders, inv.Graph.Expired) {
		check("holder "+h.Name, h.Nodes)
	}
	seen := map[string]bool{}
	for _, i := range inv.Images {
		check("image "+i.ID, i.Roots)
		if seen[i.ID] || len(i.Roots) == 0 || len(i.References) == 0 {
			t.Fatalf("image %q: %s", i.ID, fmt.Sprint(i))
		}
		seen[i.ID] = true
	}
}
