package image

import (
	"fmt"
	"testing"
	"time"
)

// largeNode is a node with far more images than the kubelet reports at all:
// chains of layers on shared bases, a config, a manifest and the compressed
// layers as blobs. perImage nodes of its own each.
func largeNode(images, perImage int) Snapshot {
	const bases = 50
	s := Snapshot{Policy: Policy{HighPercent: 80, LowPercent: 75, MinimumAge: 2 * time.Minute}}
	add := func(n Node) NodeID {
		s.Graph.Nodes = append(s.Graph.Nodes, n)
		return NodeID(len(s.Graph.Nodes) - 1)
	}
	for range bases {
		add(Node{Kind: NodeSnapshot, Bytes: 50 << 20, Inodes: 3000})
	}
	for i := range images {
		top := NodeID(i % bases)
		record := Node{Kind: NodeRecord}
		for range (perImage - 1) / 2 {
			top = add(Node{Kind: NodeSnapshot, Bytes: 10 << 20, Inodes: 500, Refs: []NodeID{top}})
			record.Refs = append(record.Refs, add(Node{Kind: NodeBlob, Bytes: 4 << 20, Inodes: 1}))
		}
		record.Refs = append(record.Refs, top)
		img := Image{
			ID:       fmt.Sprintf("sha256:%064x", i*7919%images),
			Roots:    []NodeID{add(record)},
			LastUsed: noon.Add(-time.Duration(i*31%images) * time.Minute),
			Arrived:  noon.Add(-1000 * time.Hour),
			Observed: noon.Add(-1000 * time.Hour),
		}
		if i%3 == 0 {
			img.UsedBy = []string{fmt.Sprint("container k8s.io/", i)}
		}
		s.Images = append(s.Images, img)
	}
	total := s.Graph.total().bytes
	s.Disk = Disk{CapacityBytes: total * 10 / 9, AvailableBytes: total / 9} // 90 % used
	return s
}

func BenchmarkDecide(b *testing.B) {
	low := largeNode(2000, 10)
	low.Disk.AvailableBytes = low.Disk.CapacityBytes / 2
	reclaim := largeNode(2000, 10)
	hold := largeNode(2000, 10)
	hold.Disk.AvailableBytes, hold.Disk.CapacityBytes = 0, hold.Disk.CapacityBytes*20
	held := hold
	held.Hold = Decide(hold, noon).Hold
	for _, bench := range []struct {
		name string
		s    Snapshot
	}{{"low", low}, {"reclaim", reclaim}, {"hold-begins", hold}, {"hold-lasts", held}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			var plan Plan
			for b.Loop() {
				plan = Decide(bench.s, noon)
			}
			b.ReportMetric(float64(len(plan.Remove)), "removed")
			b.ReportMetric(float64(len(bench.s.Graph.Nodes)), "nodes")
		})
	}
}

// The benchmark measures what its name promises.
func TestLargeNode(t *testing.T) {
	s := largeNode(2000, 10)
	plan := Decide(s, noon)
	if n := len(s.Graph.Nodes); n < 18000 || n > 22000 {
		t.Errorf("%d nodes, want about 20,000", n)
	}
	if len(plan.Remove) == 0 || len(plan.Remove) > 1300 || plan.Hold != nil {
		t.Errorf("removes %d of 2000 images, hold %v", len(plan.Remove), plan.Hold)
	}
	var freed uint64
	for _, d := range plan.Remove {
		freed += d.FreesBytes
	}
	last := plan.Remove[len(plan.Remove)-1].FreesBytes
	if freed < plan.NeedBytes || freed-last >= plan.NeedBytes {
		t.Errorf("frees %d of %d bytes, the last removal %d", freed, plan.NeedBytes, last)
	}
}
