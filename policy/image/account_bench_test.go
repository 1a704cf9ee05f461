package image

import (
	"fmt"
	"testing"
)

// pulled is a node with images of five layers as containerd has them: three are a base that
// twenty share, two are their own; a record for each image, a record and a blob for its
// manifest, its configuration and each layer. Each tenth has a container.
func pulled(images int) (Graph, []Image) {
	const shared, layers, share = 3, 5, 20
	b := &graphOf{}
	var list []Image
	var base, baseBlobs []NodeID
	for i := range images {
		if i%share == 0 {
			base, baseBlobs = nil, nil
			for range shared {
				base = append(base, b.snapshot(60<<20, base...))
				base = base[len(base)-1:]
				baseBlobs = append(baseBlobs, b.content(20<<20))
			}
		}
		top, blobs := base[0], baseBlobs
		for range layers - shared {
			top = b.snapshot(10<<20, top)
			blobs = append(blobs[:len(blobs):len(blobs)], b.content(4<<20))
		}
		manifest := b.content(4096, append(blobs[:len(blobs):len(blobs)], b.content(4096, top))...)
		list = append(list, Image{
			ID: fmt.Sprintf("sha256:%064x", i*7919), Roots: []NodeID{b.record(manifest)}, NominalBytes: 68 << 20,
		})
		if i%10 == 0 {
			writable := b.snapshot(0, top)
			b.Holders = append(b.Holders, Holder{Kind: "container", Name: fmt.Sprint("k8s.io/", i), Nodes: []NodeID{b.record(writable)}})
		}
	}
	return b.Graph, list
}

// graphOf grows a graph.
type graphOf struct{ Graph }

func (b *graphOf) node(n Node) NodeID {
	b.Nodes = append(b.Nodes, n)
	return NodeID(len(b.Nodes) - 1)
}

func (b *graphOf) record(refs ...NodeID) NodeID { return b.node(Node{Kind: NodeRecord, Refs: refs}) }

func (b *graphOf) snapshot(bytes uint64, refs ...NodeID) NodeID {
	return b.node(Node{Kind: NodeSnapshot, Bytes: bytes, Inodes: 10, Refs: refs})
}

// content is a namespace's record of a blob.
func (b *graphOf) content(bytes uint64, refs ...NodeID) NodeID {
	blob := b.node(Node{Kind: NodeBlob, Bytes: bytes, Inodes: 1})
	return b.record(append([]NodeID{blob}, refs...)...)
}

func BenchmarkAccount(b *testing.B) {
	for _, images := range []int{1_000, 10_000, 100_000} {
		g, list := pulled(images)
		b.Run(fmt.Sprint(images), func(b *testing.B) {
			b.ReportAllocs()
			var a Accounts
			for b.Loop() {
				a = Account(g, list)
			}
			b.ReportMetric(float64(len(g.Nodes)), "nodes")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(images), "ns/image")
			if own := a.Images[1].Own.Bytes; own < 28<<20 || own > 29<<20 {
				b.Fatalf("an image has %d bytes of its own", own)
			}
		})
	}
}
