// Package population fills a throwaway node with thousands of images.
package population

import (
	"context"
	"fmt"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/node"
)

// Population is a number of images with Layers layers each. Ten consecutive images share all layers
// but their last two, or but their last one if they have two.
type Population struct{ Images, Layers int }

// Import imports the images in batches.
func (p Population) Import(ctx context.Context, n *node.Node) error {
	const at = 250
	for i := 0; i < p.Images; i += at {
		list := make([]node.Image, 0, at)
		for j := i; j < min(i+at, p.Images); j++ {
			list = append(list, p.Image(j))
		}
		if _, err := n.ImportAll(ctx, node.CRINamespace, list); err != nil {
			return err
		}
		if (i+at)%1000 == 0 {
			benchmark.Say("%d of %d images imported", i+at, p.Images)
		}
	}
	return nil
}

// Image returns the i-th image. i may be beyond the images that Import imports.
func (p Population) Image(i int) node.Image {
	image := node.Image{Name: fmt.Sprintf("images.test/image:%d", i), NoBusybox: true}
	own := min(2, p.Layers-1)
	for l := range p.Layers {
		seed := fmt.Sprintf("group-%d-%d", i/10, l)
		if l >= p.Layers-own {
			seed = fmt.Sprintf("own-%d-%d", i, l)
		}
		image.Layers = append(image.Layers, node.Layer{Seed: seed, Bytes: 32 << 10, Files: 2})
	}
	return image
}
