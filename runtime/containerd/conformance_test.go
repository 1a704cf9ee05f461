package containerd_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	criNamespace = "k8s.io"
	otherSpace   = "builder"
	mib          = 1 << 20

	// patience bounds what a runtime does by itself, such as noticing an event.
	patience = 30 * time.Second
)

// conform runs every case. The harness is made once; cases follow each other.
func conform(t *testing.T, start func(*testing.T) Harness) {
	h := start(t)
	s := &suite{Harness: h}
	cases := []struct {
		name string
		run  func(*suite, *testing.T)
	}{
		{"Identity", (*suite).identity},
		{"TwoNames", (*suite).twoNames},
		{"SharedLayers", (*suite).sharedLayers},
		{"Lease", (*suite).lease},
		{"OtherNamespaceHoldsBlobs", (*suite).otherNamespace},
		{"InUse", (*suite).inUse},
		{"InUseByEqualLayers", (*suite).inUseByEqualLayers},
		{"Retagged", (*suite).retagged},
		{"Pinned", (*suite).pinned},
		{"Sandbox", (*suite).sandbox},
		{"RemovalIsIdempotent", (*suite).removalIdempotent},
		{"WithdrawAndComplete", (*suite).withdrawAndComplete},
		{"NamedSinceCheck", (*suite).namedSinceCheck},
		{"ChangedSinceCheck", (*suite).changedSinceCheck},
		{"CompleteTogether", (*suite).completeTogether},
		{"WithdrawAndRestore", (*suite).withdrawAndRestore},
		{"WithdrawAndMend", (*suite).withdrawAndMend},
		{"NameGivenAwayWhileWithdrawn", (*suite).nameGivenAway},
		{"PulledAgainWhileWithdrawn", (*suite).pulledAgain},
		{"PulledBeforeMend", (*suite).pulledBeforeMend},
		{"Containers", (*suite).containers},
		{"HostileNames", (*suite).hostileNames},
		{"ResolveLayer", (*suite).resolveLayer},
		{"ResolveLayerOnFullDisk", (*suite).resolveOnFullDisk},
		{"Workloads", (*suite).workloads},
		{"WorkloadsGo", (*suite).workloadsGo},
		{"Events", (*suite).events},
		{"PodEvents", (*suite).podEvents},
		{"Interrupt", (*suite).interrupt},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.run(s, t)
			if left := h.Node.Leftovers(t); len(left) > 0 {
				t.Errorf("snapshots left behind: %q", left)
			}
		})
	}
}

type suite struct{ Harness }

func (s *suite) inventory(t *testing.T) *inventory.Inventory {
	t.Helper()
	inv, err := s.Runtime.Inventory(t.Context())
	if err != nil {
		t.Fatalf("inventory: %v", err)
	}
	return inv
}

// check asks Check about one image.
func (s *suite) check(t *testing.T, id string) (img inventory.Image, there bool) {
	t.Helper()
	checked, err := s.Runtime.Check(t.Context(), id)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	img, there = checked[id]
	return img, there
}

// find returns an image, from the inventory and from Check: the two must agree.
func (s *suite) find(t *testing.T, id string) inventory.Image {
	t.Helper()
	img, ok := lookup(s.inventory(t), id)
	if !ok {
		t.Fatalf("image %s is not in the inventory", id)
	}
	fresh, there := s.check(t, id)
	if !there {
		t.Fatalf("image %s is not there by Check", id)
	}
	if !slices.Equal(img.References, fresh.References) || img.Pinned != fresh.Pinned || img.Sandbox != fresh.Sandbox {
		t.Errorf("inventory and check disagree:\n%+v\n%+v", img, fresh)
	}
	if (len(img.UsedBy) > 0) != (len(fresh.UsedBy) > 0) {
		t.Errorf("used by %q in the inventory, by %q in check", img.UsedBy, fresh.UsedBy)
	}
	return img
}

func lookup(inv *inventory.Inventory, id string) (inventory.Image, bool) {
	i := slices.IndexFunc(inv.Images, func(i inventory.Image) bool { return i.ID == id })
	if i < 0 {
		return inventory.Image{}, false
	}
	return inv.Images[i], true
}

// frees computes from the graph what removing one image gives back.
func (s *suite) frees(t *testing.T, id string) weight {
	t.Helper()
	inv := s.inventory(t)
	all, rest := reachable(inv, ""), reachable(inv, id)
	var w weight
	for n := range all {
		if rest[n] {
			continue
		}
		node := inv.Graph.Nodes[n]
		switch node.Kind {
		case image.NodeBlob:
			w.blobs += node.Bytes
		case image.NodeSnapshot:
			w.snapshots += node.Bytes
		}
	}
	return w
}

type weight struct{ blobs, snapshots uint64 }

func (w weight) total() uint64 { return w.blobs + w.snapshots }

// reachable is what stays when one image goes.
func reachable(inv *inventory.Inventory, without string) map[image.NodeID]bool {
	reached := map[image.NodeID]bool{}
	var todo []image.NodeID
	for _, h := range inv.Graph.Holders {
		todo = append(todo, h.Nodes...)
	}
	for _, i := range inv.Images {
		if i.ID != without {
			todo = append(todo, i.Roots...)
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !reached[n] {
			reached[n] = true
			todo = append(todo, inv.Graph.Nodes[n].Refs...)
		}
	}
	return reached
}

// remove removes an image and compares what that freed with what was computed.
func (s *suite) remove(t *testing.T, id string) weight {
	t.Helper()
	computed := s.frees(t, id)
	before := s.Node.StoredBytes(t)
	if err := s.Runtime.Remove(t.Context(), id); err != nil {
		t.Fatalf("remove: %v", err)
	}
	// No waiting here: removal is synchronous.
	measured := int64(before) - int64(s.Node.StoredBytes(t))
	margin := int64(128<<10) + int64(computed.total()/50)
	if diff := measured - int64(computed.total()); diff < -margin || diff > margin {
		t.Errorf("removal freed %d bytes, computed were %+v", measured, computed)
	}
	if _, ok := lookup(s.inventory(t), id); ok {
		t.Errorf("image %s is still in the inventory", id)
	}
	return computed
}

// discard removes an image at the end of a case.
func (s *suite) discard(t *testing.T, id string) {
	t.Helper()
	if err := s.Runtime.Remove(context.WithoutCancel(t.Context()), id); err != nil {
		t.Errorf("remove: %v", err)
	}
}

// near reports whether got is at least want and not much above it (directories,
// manifests).
func near(got, want uint64) bool { return got >= want && got <= want+want/20+256<<10 }

func wantNear(t *testing.T, what string, got, want uint64) {
	t.Helper()
	if !near(got, want) {
		t.Errorf("%s: got %d bytes, want about %d", what, got, want)
	}
}

func name(parts ...any) string { return "runtimetest.local/" + fmt.Sprint(parts...) + ":1" }
