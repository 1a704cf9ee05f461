package node_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

// BenchmarkStart is the life of a node with nothing on it: made and removed.
func BenchmarkStart(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("SKIPPED: a throwaway node needs root (mounts, containers)")
	}
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		b.Run(string(flavor), func(b *testing.B) {
			base := b.TempDir()
			for b.Loop() {
				n, err := node.Start(b.Context(), node.Config{Name: "bench", Base: base, Containerd: flavor})
				if err != nil {
					b.Fatal(err)
				}
				if err := n.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkImport200 imports 200 images of one shared layer and one of 300 KiB
// of their own.
func BenchmarkImport200(b *testing.B) {
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		for _, fs := range []string{"ext4", "xfs", "btrfs"} {
			b.Run(fmt.Sprintf("%s/%s", flavor, fs), func(b *testing.B) {
				n := nodetest.Start(b, node.Config{Containerd: flavor, FS: fs, SizeBytes: 4 << 30})
				round := 0
				for b.Loop() {
					round++
					var list []node.Image
					for i := range 200 {
						seed := fmt.Sprintf("%d-%d", round, i)
						list = append(list, node.Image{
							Name:   "node.test/app:" + seed,
							Layers: []node.Layer{{Seed: seed, Bytes: 300 << 10}},
						})
					}
					if _, err := n.ImportAll(b.Context(), node.CRINamespace, list); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
