package containerd

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/cri"
)

func account(r *reading) image.Accounts {
	inv := r.inventory()
	var images []image.Image
	for _, i := range inv.Images {
		images = append(images, image.Image{ID: i.ID, Roots: i.Roots, NominalBytes: i.NominalBytes})
	}
	return image.Account(inv.Graph, images)
}

// ownOf is what stays with an image, less what stays without it.
func ownOf(r *reading, id string) image.Size {
	inv := r.inventory()
	weigh := func(with bool) (s image.Size) {
		var todo []image.NodeID
		for _, h := range inv.Graph.Holders {
			todo = append(todo, h.Nodes...)
		}
		for _, i := range inv.Images {
			if with || i.ID != id {
				todo = append(todo, i.Roots...)
			}
		}
		seen := map[image.NodeID]bool{}
		for len(todo) > 0 {
			n := todo[0]
			todo = todo[1:]
			if !seen[n] {
				seen[n] = true
				node := inv.Graph.Nodes[n]
				s.Bytes, s.Inodes = s.Bytes+node.Bytes, s.Inodes+node.Inodes
				todo = append(todo, node.Refs...)
			}
		}
		return s
	}
	with, without := weigh(true), weigh(false)
	return image.Size{Bytes: with.Bytes - without.Bytes, Inodes: with.Inodes - without.Inodes}
}

// deep gives an image a chain of layers, each with its blob, under one manifest.
func deep(layers int) *reading {
	r := oneImage()
	s := &r.spaces[0]
	s.snapshots, s.contents = nil, []contentRecord{{digest: "m", bytes: 1, labels: map[string]string{refContent + ".config": "c"}}}
	for i := range layers {
		name := string(rune('α' + i))
		s.snapshots = append(s.snapshots, snapshotRecord{snapshotter: "overlayfs", key: "s" + name, committed: true, bytes: 4096, inodes: 2})
		if i > 0 {
			s.snapshots[i].parent = s.snapshots[i-1].key
		}
		s.contents = append(s.contents, contentRecord{digest: "l" + name, bytes: 4096})
		s.contents[0].labels[refContent+".l."+name] = "l" + name
	}
	s.contents = append(s.contents, contentRecord{digest: "c", labels: map[string]string{refSnapshot: s.snapshots[layers-1].key}})
	return r
}

// Records of containerd, and what of them is the image's own.
func TestAccountOfRecords(t *testing.T) {
	const block = blockSize
	// Manifest, configuration and two layers, a block each; two snapshots of 300 bytes.
	whole := image.Size{Bytes: 4*block + 300, Inodes: 4}
	for _, test := range []struct {
		name       string
		reading    func() *reading
		own, total image.Size
	}{
		{"alone", oneImage, whole, whole},
		{"127 layers", func() *reading { return deep(127) },
			image.Size{Bytes: (2*127 + 1) * block, Inodes: 3*127 + 2}, image.Size{Bytes: (2*127 + 1) * block, Inodes: 3*127 + 2}},
		{"another image has the same chain of layers", func() *reading {
			r := oneImage()
			s := &r.spaces[0]
			r.images = append(r.images, cri.Image{ID: "j"})
			s.images = append(s.images, imageRecord{name: "j:1", target: "mj", content: imageContent{id: "j", chain: "s2"}})
			s.contents = append(s.contents,
				contentRecord{digest: "mj", bytes: 1, labels: map[string]string{refContent + ".config": "cj", refContent + ".l.0": "l1", refContent + ".l.1": "l2"}},
				contentRecord{digest: "cj", bytes: 1, labels: map[string]string{refSnapshot: "s2"}})
			return r
		}, image.Size{Bytes: 2 * block, Inodes: 2}, whole},
		{"a list of manifests, of which one is here", func() *reading {
			r := oneImage()
			s := &r.spaces[0]
			s.images[0].target = "list"
			s.contents = append(s.contents, contentRecord{digest: "list", bytes: 1, labels: map[string]string{refContent + ".m.0": "m", refContent + ".m.1": "arm64"}})
			return r
		}, image.Size{Bytes: 5*block + 300, Inodes: 5}, image.Size{Bytes: 5*block + 300, Inodes: 5}},
		{"a blob is missing", func() *reading {
			r := oneImage()
			s := &r.spaces[0]
			s.contents = slices.DeleteFunc(s.contents, func(c contentRecord) bool { return c.digest == "l2" })
			return r
		}, image.Size{Bytes: 3*block + 300, Inodes: 3}, image.Size{Bytes: 3*block + 300, Inodes: 3}},
		{"another namespace has it, too", func() *reading {
			r := oneImage()
			other := oneImage().spaces[0]
			other.name = "other"
			r.spaces = append(r.spaces, other)
			return r
		}, image.Size{Bytes: 300}, whole},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.reading()
			got := account(r).Images[0]
			shared := image.Size{Bytes: test.total.Bytes - test.own.Bytes, Inodes: test.total.Inodes - test.own.Inodes}
			want := image.ImageAccount{ImageID: "i", Own: test.own, Shared: shared, Total: test.total}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if own := ownOf(r, "i"); own != test.own {
				t.Errorf("by going through the graph: %v", own)
			}
		})
	}
}

// What nobody holds is reported with its age: held by something expired, or by nothing at all.
func TestAccountOfNobody(t *testing.T) {
	const block = blockSize
	r := oneImage()
	s := &r.spaces[0]
	old, older := now.Add(-30*time.Hour), now.Add(-50*time.Hour)
	past := map[string]string{labelExpire: "2020-01-01T00:00:00Z"}
	s.contents = append(s.contents, contentRecord{digest: "leased", bytes: 9, created: image.TimestampOf(old)}, contentRecord{digest: "lost", bytes: 9})
	s.snapshots = append(s.snapshots, snapshotRecord{snapshotter: "overlayfs", key: "orphan", parent: "s1", committed: true, created: older, bytes: 70, inodes: 7})
	s.leases = []leaseRecord{{id: "x", labels: past, resources: []leaseResource{{kindContent, "leased"}, {kindContent, "m"}}}}
	s.ingests = []ingestRecord{
		{ref: "dead", bytes: 5000, inodes: 6, started: older, updated: old},
		{ref: "leased", bytes: 1, inodes: 5, updated: old},
		{ref: "fresh", bytes: 1, inodes: 5, started: older, updated: now.Add(-time.Hour)},
	}
	s.leases = append(s.leases, leaseRecord{id: "pull", resources: []leaseResource{{kindIngest, "leased"}}})
	s.unread = []string{"ingests of elsewhere"}
	s.images = append(s.images,
		imageRecord{name: "gone:1", target: "zz", updated: older},
		imageRecord{name: "old:1", target: "zz", labels: past, updated: old})
	a := account(r)
	for i := range a.Nobody {
		a.Nobody[i].Nodes = nil
	}
	want := []image.Entry{
		{By: image.NobodyExpired, Count: 2, Size: image.Size{Bytes: block, Inodes: 1}, Oldest: old},
		{By: image.NobodySnapshots, Count: 1, Size: image.Size{Bytes: 70, Inodes: 7}, Oldest: older},
		{By: image.NobodyBlobs, Count: 1, Size: image.Size{Bytes: block, Inodes: 1}},
		{By: image.NobodyIngests, Count: 1, Size: image.Size{Bytes: 2 * block, Inodes: 6}, Oldest: older},
		{By: image.NobodyRecords, Count: 1},
	}
	if diff := cmp.Diff(want, a.Nobody); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !slices.Equal(a.Unread, s.unread) {
		t.Errorf("not read: %q", a.Unread)
	}
	if a.Empty.Count != 2 || !a.Empty.Oldest.Equal(older) {
		t.Errorf("empty: %+v", a.Empty)
	}
}
