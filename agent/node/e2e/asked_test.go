package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

// available is what statfs reports once everything that was written is on the disk.
func (b *fixture) available() uint64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	u, err := b.node.AtRest(ctx)
	b.must(err)
	return u.AvailableBytes
}

// plan asks the running agent what would go.
func (b *fixture) plan(q page.PlanRequest) (p page.Plan) {
	b.Helper()
	b.must(b.agent.(*agentrun.Process).Ask(b.ctx, http.MethodPost, "/plan", q, &p))
	return p
}

// reclaim has the agent carry out a plan, and returns the names of what went.
func (b *fixture) reclaim(q page.PlanRequest, digest string) (removed []string, last page.ReclaimEvent) {
	b.Helper()
	b.must(b.agent.(*agentrun.Process).Reclaim(b.ctx, page.ReclaimRequest{PlanRequest: q, Digest: digest}, func(e page.ReclaimEvent) {
		if last = e; e.Event == "removed" {
			removed = append(removed, b.scenario.name(e.ID))
		}
	}))
	return removed, last
}

// carryOut has a plan made and carried out: what was planned goes, in that order, and frees what was
// planned, within 2 % or 2 MiB of what the disk shows.
func (b *fixture) carryOut(what string, q page.PlanRequest) (removed []string) {
	b.Helper()
	before := b.available()
	p := b.plan(q)
	var want []string
	for _, i := range p.Remove {
		want = append(want, b.scenario.name(i.ID))
	}
	removed, last := b.reclaim(q, p.Digest)
	if !slices.Equal(removed, want) || last.Result != "done" || len(want) == 0 {
		b.Errorf("%s: removed %v, planned %v: %+v", what, removed, want, last)
	}
	freed := b.available() - before
	off := float64(freed) - float64(p.Frees.Bytes)
	percent := 100 * max(off, -off) / float64(freed)
	b.Logf("%s: %d images, planned %d bytes, freed %d: %.2f %% off", what, len(want), p.Frees.Bytes, freed, percent)
	if percent > 2 && max(off, -off) > 2*mib {
		b.Errorf("%s: planned %d bytes, freed %d", what, p.Frees.Bytes, freed)
	}
	for _, name := range removed {
		b.scenario.forget(name)
	}
	b.awaitOrder()
	return removed
}

// TestReclaimAsPlanned: on each filesystem what is planned goes, in that order, and frees what
// was planned, within 2 % or 2 MiB of what the disk shows: one image, images that share a layer,
// and down to a percentage.
func TestReclaimAsPlanned(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, []string{"ext4", "xfs", "btrfs"}, func(t *testing.T, kind string) {
		b := newFixtureOn(t, kind, node.V2, append(plains("a", 6), sharing("s0", "x", 6*mib), sharing("s1", "x", 6*mib), sharing("s2", "x", 6*mib))...)
		b.start()
		b.use("a3", "s1", "s0", "a1", "s2", "a5", "a0", "a4", "a2")
		b.awaitOrder()
		b.carryOut("one image", page.PlanRequest{FreeBytes: mib}) // more than anything else frees meanwhile
		b.carryOut("images that share a layer", page.PlanRequest{FreeBytes: 26 * mib})
		s, err := b.status()
		b.must(err)
		to := s.Filesystems[0].UsedPercent - 6
		b.carryOut("down to a percentage", page.PlanRequest{ToPercent: &to})
		if p := b.plan(page.PlanRequest{FreeBytes: 1 << 40}); p.Hold == nil || len(p.Remove) > 0 {
			t.Errorf("next to nothing of what is asked for is to go: %+v", p.Remove)
		}
		more := page.PlanRequest{FreeBytes: b.plan(page.PlanRequest{}).Most.Bytes + 10*mib}
		rest := b.plan(more)
		if rest.Hold == nil || rest.Most != rest.Frees || len(rest.Remove) == 0 {
			t.Errorf("more than there is: %+v", rest)
		}
		all, last := b.reclaim(more, rest.Digest)
		if last.Result != "short" || len(all) != len(rest.Remove) {
			t.Errorf("more than there is: removed %v: %+v", all, last)
		}
	})
}

// TestKilledInAnAskedRun: who asked for a run in which the agent is killed gets an error, never that all is done.
// The next agent removes nothing more of it by itself, knows what went, and can be asked for the rest.
func TestKilledInAnAskedRun(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.V2, plains("a", 10)...)
	b.start()
	b.use("a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9")
	b.awaitOrder()
	p := b.plan(page.PlanRequest{FreeBytes: 40 * mib})
	killed := false
	err := b.agent.(*agentrun.Process).Reclaim(b.ctx, page.ReclaimRequest{PlanRequest: page.PlanRequest{FreeBytes: 40 * mib}, Digest: p.Digest}, func(page.ReclaimEvent) {
		if !killed {
			killed = true
			b.kill()
		}
	})
	if !killed || !errors.Is(err, show.ErrCut) {
		t.Errorf("the agent was killed: %v; the call returns %v", killed, err)
	}
	b.start()
	gone := b.gone()
	b.awaitOrderOfRest()
	b.stop()
	if after := b.gone(); !slices.Equal(after, gone) {
		t.Errorf("gone at the start of the next agent: %v, at its end: %v", gone, after)
	}
	booked := b.savedHistory()
	for _, name := range b.scenario.order {
		if slices.Contains(booked[name], page.OutcomeRemoved) != slices.Contains(gone, name) {
			t.Errorf("%s is gone: %v, and in the history it is %q", name, slices.Contains(gone, name), booked[name])
		}
	}
	for _, name := range gone {
		b.scenario.forget(name)
	}
	b.start()
	b.carryOut("the rest", page.PlanRequest{FreeBytes: 6 * mib})
}

// TestPlansOfOddImages: two images of the same layers free them with the second one, an image of as
// many layers as containerd takes has each counted, and one whose blobs are gone in part does not make
// plans of others wrong.
func TestPlansOfOddImages(t *testing.T) {
	t.Parallel()
	deep := node.Image{Name: ref("deep")}
	for n := range 126 { // above busybox: overlayfs takes 128
		deep.Layers = append(deep.Layers, node.Layer{Seed: fmt.Sprint("deep-", n), Bytes: 64 << 10})
	}
	twin := func(name string) node.Image {
		return node.Image{Name: ref(name), Layers: []node.Layer{{Seed: "twins", Bytes: 8 * mib}}, Labels: map[string]string{"twin": name}}
	}
	b := newFixture(t, node.V2, twin("t0"), twin("t1"), deep, plain("broken", 6*mib), plain("a", 6*mib))
	b.start()
	b.awaitMetric("ebb_node_layers_tracked", 5) // the twins have one, and the sandbox image has one, too
	b.tracked = true
	b.use("t0", "t1", "deep", "broken", "a")
	b.awaitOrder()
	for _, name := range []string{"t0", "t1"} {
		i, err := b.verdict(b.scenario.ids[name])
		b.must(err)
		if i.Own.Bytes > mib/4 || i.Shared.Bytes < 16*mib {
			t.Errorf("%s has %+v of its own, and shares %+v", name, i.Own, i.Shared)
		}
	}
	if removed := b.carryOut("twins", page.PlanRequest{FreeBytes: 8 * mib}); !slices.Equal(removed, []string{"t0", "t1"}) {
		t.Errorf("for the twins' layer %v went", removed)
	}
	if removed := b.carryOut("many layers", page.PlanRequest{FreeBytes: 8 * mib}); !slices.Equal(removed, []string{"deep"}) {
		t.Errorf("of many layers %v went", removed)
	}

	// Somebody deletes a blob of an unpacked image.
	in := namespaces.WithNamespace(b.ctx, node.CRINamespace)
	i, err := b.node.Client().ImageService().Get(in, ref("broken"))
	b.must(err)
	store := b.node.Client().ContentStore()
	manifest, err := images.Manifest(in, store, i.Target, nil)
	b.must(err)
	b.must(store.Delete(in, manifest.Layers[len(manifest.Layers)-1].Digest))
	b.must(b.node.Collect(b.ctx))
	b.use("a") // no event reports the loss of the blob; the next list shows it
	b.eventually("the image of which a blob is gone", func() error {
		broken, err := b.verdict(b.scenario.ids["broken"])
		if err == nil && (broken.Total.Bytes == 0 || broken.Total.Bytes > 9*mib+4*mib) {
			err = fmt.Errorf("it takes %+v", broken.Total)
		}
		return err
	})
	b.carryOut("a missing blob", page.PlanRequest{FreeBytes: mib}) // more than anything else frees meanwhile
}
