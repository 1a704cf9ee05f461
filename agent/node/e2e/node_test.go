package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// eachRuntime runs a test on both containerds.
func eachRuntime(t *testing.T, test func(*testing.T, node.Flavor)) {
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			test(t, flavor)
		})
	}
}

// use runs `true` in a container of each image and deletes it at once.
func (b *fixture) use(names ...string) {
	b.Helper()
	b.awaitTracked()
	for _, name := range names {
		c := b.sleepIn(name, "true")
		_, err := c.Wait(b.ctx)
		b.must(err)
		b.must(c.Delete(b.ctx))
		b.scenario.used(name)
	}
}

// awaitTracked waits, once, until the kernel stamps the uses of all images, where it does. Before
// that, a container that ends and goes faster than its events are heard counts as used until the
// agent finds it gone, which can be after the next one's use.
func (b *fixture) awaitTracked() {
	b.Helper()
	if b.agent == nil || b.tracked || !b.config.Kernel.Enabled {
		return
	}
	b.tracked = true
	b.awaitAtLeast("ebb_node_layers_tracked", float64(len(b.onNode())))
}

// sleepIn runs a container of an image: for ever, or what args say.
func (b *fixture) sleepIn(name string, args ...string) *node.Container {
	b.Helper()
	b.runs++
	c, err := b.node.Run(b.ctx, node.RunSpec{ID: fmt.Sprintf("c%d", b.runs), Image: ref(name), Args: args})
	b.must(err)
	return c
}

// fill brings the disk to that many percent.
func (b *fixture) fill(percent float64) {
	b.Helper()
	b.must(b.node.FillTo("fill", percent))
}

// cross fills to just below the high threshold, then crosses it with one write. It
// does not fill up again what the agent frees meanwhile.
func (b *fixture) cross() {
	b.Helper()
	b.fill(float64(b.config.Images.HighThresholdPercent) - 1.5)
	u, err := b.node.Usage()
	b.must(err)
	b.must(b.node.Fill("fill", int64(u.CapacityBytes)/100*2))
}

// onNode returns the IDs of the images that the CRI lists.
func (b *fixture) onNode() []string {
	b.Helper()
	_, images := b.node.CRI()
	r, err := images.ListImages(b.ctx, &runtimeapi.ListImagesRequest{})
	b.must(err)
	var ids []string
	for _, i := range r.Images {
		ids = append(ids, i.Id)
	}
	return ids
}

// mustStay checks that images are still on the node.
func (b *fixture) mustStay(names ...string) {
	b.Helper()
	have := b.onNode()
	for _, name := range names {
		if !slices.Contains(have, b.scenario.ids[name]) {
			b.Errorf("FINAL: image %s is gone", name)
		}
	}
}

// removals returns the removals that the agents logged after a mark.
func (b *fixture) removals(mark int) []agentrun.Line { return b.journal.since(mark, "image removed") }

// removedNames returns which images went after a mark, in order.
func (b *fixture) removedNames(mark int) []string {
	var names []string
	for _, l := range b.removals(mark) {
		names = append(names, b.scenario.name(l.Text("image")))
	}
	return names
}

// lowBytes is what is available on a disk that is exactly at its low threshold.
func (b *fixture) lowBytes(u node.Usage) int64 {
	return int64(u.CapacityBytes) / 100 * int64(100-b.config.Images.LowThresholdPercent)
}

// checkRun holds the removals after a mark, which are one run or a run that was
// taken up again, against what ebb promises: who went is who had to, in the true
// order; the disk is low now, and would not be had the last one stayed.
func (b *fixture) checkRun(mark int, stays ...string) {
	b.Helper()
	removed := b.removedNames(mark)
	want, _ := b.scenario.goes(len(removed), stays...)
	if !slices.Equal(removed, want) {
		b.Errorf("FINAL: removed %v; used longest ago were %v", removed, want)
	}
	for _, l := range b.removals(mark) {
		if l.Text("reason") == "" {
			b.Errorf("no reason for the removal of %s", b.scenario.name(l.Text("image")))
		}
	}
	b.checkGone(stays...)
}

// gone returns which images of the scenario are not on the node any more, as the runtime
// has it.
func (b *fixture) gone() []string {
	b.Helper()
	have := b.onNode()
	var names []string
	for _, name := range b.scenario.order {
		if !slices.Contains(have, b.scenario.ids[name]) {
			names = append(names, name)
		}
	}
	return names
}

// checkGone is checkRun without the order of removal, for agents that were
// killed before they could say what they did.
func (b *fixture) checkGone(stays ...string) {
	b.Helper()
	removed := b.gone()
	if len(removed) == 0 {
		b.Error("nothing was removed")
		return
	}
	want, lastFrees := b.scenario.goes(len(removed), stays...)
	if !slices.Equal(removed, want) {
		b.Errorf("FINAL: gone are %v; used longest ago were %v", removed, want)
	}
	u, err := b.node.Usage()
	b.must(err)
	// Directories, metadata and logs are not in the oracle's sizes.
	const slack = 512 << 10
	low, after := b.lowBytes(u), int64(u.AvailableBytes)
	if after < low-slack {
		b.Errorf("%d bytes are available; the low threshold is at %d", after, low)
	}
	if after-lastFrees >= low+slack {
		b.Errorf("%d bytes are available, %d of them by the last removal; the low threshold is at %d", after, lastFrees, low)
	}
}

// notLow returns an error while the disk is above its low threshold.
func (b *fixture) notLow() error {
	u, err := b.node.Usage()
	if err == nil && int64(u.AvailableBytes) < b.lowBytes(u) {
		err = fmt.Errorf("the disk is at %.2f %%", u.UsedPercent)
	}
	return err
}
