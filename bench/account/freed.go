package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

const mib = 1 << 20

// measureFreed carries out plans on each filesystem and compares the bytes that they promise to
// free with the bytes that become free on the disk.
func measureFreed(ctx context.Context, o options, f figures) error {
	var all freed
	for _, fs := range []string{"ext4", "xfs", "btrfs"} {
		one, err := freedOn(ctx, o, fs)
		if err != nil {
			return fmt.Errorf("%s: %w", fs, err)
		}
		f.set("freed_error_percent_"+fs, one.percent)
		all = all.max(one)
	}
	f.set("freed_error_percent_max", all.percent)
	f.set("freed_error_kib_max", all.bytes/1024)
	return nil
}

// freed is the error of a plan: in percent of the bytes that became free, and in bytes.
type freed struct{ percent, bytes float64 }

func (f freed) max(g freed) freed { return freed{max(f.percent, g.percent), max(f.bytes, g.bytes)} }

// freedOn returns the largest error of the plans on one filesystem.
func freedOn(ctx context.Context, o options, fs string) (most freed, err error) {
	n, err := node.Start(ctx, node.Config{Name: "freed-" + fs, FS: fs, SizeBytes: 1 << 30, Containerd: node.V2})
	if err != nil {
		return freed{}, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if _, err := n.ImportAll(ctx, node.CRINamespace, freedImages()); err != nil {
		return freed{}, err
	}
	c := agentrun.ConfigFor(n)
	c.Images.MinimumAge = 0
	p, err := agentrun.Start(ctx, agentrun.Options{Binary: o.agent, Dir: n.Dir(), Config: c})
	if err != nil {
		return freed{}, err
	}
	defer func() { err = errors.Join(err, p.Stop(), agentrun.Unload(c)) }()
	if err := benchmark.Pause(ctx, o.rest/4); err != nil { // until the work of the start is over
		return freed{}, err
	}
	for _, free := range []uint64{1, 20 * mib, 60 * mib, 100 * mib, 200 * mib} {
		one, err := freedError(ctx, n, p, page.PlanRequest{FreeBytes: free})
		if err != nil {
			return freed{}, fmt.Errorf("free %d bytes: %w", free, err)
		}
		most = most.max(one)
	}
	return most, nil
}

// freedImages returns images with own layers of 5 to 28 MiB, each on the disk as a blob and as
// files. Pairs of images share one more layer.
func freedImages() (images []node.Image) {
	for i := range 24 {
		image := node.Image{Name: fmt.Sprintf("freed.test/image:%d", i), NoBusybox: true}
		if i%3 > 0 {
			image.Layers = append(image.Layers, node.Layer{Seed: fmt.Sprintf("shared-%d", i/3), Bytes: 6 * mib, Files: 8})
		}
		own := node.Layer{Seed: fmt.Sprintf("own-%d", i), Bytes: int64(i+5) * mib, Files: 4 * (i + 1)}
		images = append(images, node.Image{Name: image.Name, NoBusybox: true, Layers: append(image.Layers, own)})
	}
	return images
}

// freedError carries out one plan and returns its error.
func freedError(ctx context.Context, n *node.Node, p *agentrun.Process, q page.PlanRequest) (freed, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	before, err := n.AtRest(ctx)
	if err != nil {
		return freed{}, err
	}
	var plan page.Plan
	if err := p.Ask(ctx, http.MethodPost, "/plan", q, &plan); err != nil {
		return freed{}, err
	}
	var last page.ReclaimEvent
	if err := p.Reclaim(ctx, page.ReclaimRequest{PlanRequest: q, Digest: plan.Digest}, func(e page.ReclaimEvent) { last = e }); err != nil {
		return freed{}, err
	}
	if last.Result != "done" || last.Removed != len(plan.Remove) || last.Removed == 0 {
		return freed{}, fmt.Errorf("%d images were planned: %+v", len(plan.Remove), last)
	}
	after, err := n.AtRest(ctx)
	if err != nil {
		return freed{}, err
	}
	came := float64(after.AvailableBytes) - float64(before.AvailableBytes)
	off := math.Abs(came - float64(plan.Frees.Bytes))
	benchmark.Say("%d images, planned %d bytes, freed %.0f: %.0f bytes off", len(plan.Remove), plan.Frees.Bytes, came, off)
	return freed{100 * off / came, off}, nil
}
