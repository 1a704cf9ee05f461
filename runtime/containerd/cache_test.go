package containerd

import (
	"testing"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// What is known of a snapshotter outlives a reading in which it is broken: all sizes would be asked for again
// as soon as it answers.
func TestSweepSparesABrokenSnapshotter(t *testing.T) {
	var c cache
	there := inventory.SnapshotID{Namespace: "k8s.io", Snapshotter: "proxy", Key: "a"}
	gone := inventory.SnapshotID{Namespace: "k8s.io", Snapshotter: "overlayfs", Key: "b"}
	for _, id := range []inventory.SnapshotID{there, gone} {
		c.putSize(id, inventory.SizeFact{Bytes: 1})
	}
	c.sweep([]space{{name: "k8s.io"}}, brokenSnapshotters{"proxy": "connection refused"})
	if len(c.facts.Sizes) != 1 || c.facts.Sizes[there].Bytes != 1 {
		t.Errorf("known: %v", c.facts.Sizes)
	}
	if !c.mayCarry(inventory.Layer{Namespace: "k8s.io", Snapshotter: "proxy", ChainID: "a"}) {
		t.Error("a layer whose children were not read counts as having none")
	}
	c.sweep([]space{{name: "k8s.io"}}, nil)
	if len(c.facts.Sizes) != 0 {
		t.Errorf("known: %v", c.facts.Sizes)
	}
}
