package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/platforms"

	agent "github.com/ebb-agent/ebb/agent/node"
	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/tools/node"
)

// withdraw takes the names of images away as an agent does that is killed before it
// can end what it has begun.
func (b *fixture) withdraw(names ...string) {
	b.Helper()
	rt, err := containerd.Connect(b.ctx, b.node.Socket(), slog.New(slog.DiscardHandler))
	b.must(err)
	for _, name := range names {
		b.must(withdraw(b.ctx, rt, b.scenario.ids[name]))
	}
	b.must(rt.Close())
	b.eventually("the CRI to miss the images", func() error {
		for _, id := range b.onNode() {
			if slices.Contains(names, b.scenario.name(id)) {
				return fmt.Errorf("image %s is still listed", b.scenario.name(id))
			}
		}
		return nil
	})
}

// TestPutBackKeepsHistory: an image that got its names back is as old as it was. The
// CRI learns of names by events, so that they miss from a list that is read at once.
func TestPutBackKeepsHistory(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		b := newFixture(t, flavor, plains("a", 7)...)
		b.start()
		b.use("a3", "a1", "a5", "a0", "a4", "a2", "a6")
		b.awaitOrder()
		for range 3 {
			b.kill()
			b.withdraw("a1", "a0", "a4", "a5", "a3")
			b.start()
			b.awaitOrder()
			b.mustStay("a0", "a1", "a2", "a3", "a4", "a5", "a6")
		}
		// They are the next to go, by right, also in a run that begins at once.
		b.kill()
		b.cross()
		b.withdraw("a3", "a1")
		mark := b.journal.mark()
		b.start()
		b.journal.await(t, mark, "reclaim run ended")
		b.checkRun(mark)
	})
}

// withdraw takes the names of one image away.
func withdraw(ctx context.Context, rt *containerd.Runtime, id string) error {
	checked, err := rt.Check(ctx, id)
	if err != nil {
		return err
	}
	_, err = rt.Withdraw(ctx, checked[id])
	return err
}

// namesOf are the names that an image of the scenario has, but for the CRI's own.
func (b *fixture) namesOf(name string) (names []string, err error) {
	in := namespaces.WithNamespace(b.ctx, node.CRINamespace)
	all, err := b.node.Client().ImageService().List(in)
	for _, r := range all {
		config, e := r.Config(in, b.node.Client().ContentStore(), platforms.All)
		if err = errors.Join(err, e); config.Digest.String() == b.scenario.ids[name] && !strings.HasPrefix(r.Name, "sha256:") {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names, err
}

// TestNamesComeBack: a pod turns up that needs an image of which the names are away at that
// moment. All of them come back, a container starts from it, and another image goes instead.
func TestNamesComeBack(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		two := plain("two", layerBytes)
		two.Tags = []string{prefix + "other:1"}
		b := newFixture(t, flavor, append(plains("a", 8), two)...)
		k := b.startKubelet(ref("a7"))
		source, err := kube.NewKubelet(kube.KubeletOptions{URL: k.URL})
		b.must(err)
		before, err := b.namesOf("two")
		b.must(err)
		var left []string
		var leftErr error
		b.startInsideWith(agent.RealDisk{}, source, hooks{after: func(id string) {
			if b.scenario.name(id) == "two" {
				left, leftErr = b.namesOf("two")
				k.image.Store(ref("two"))
			}
		}})
		b.use("a3", "two", "a1", "a5", "a0", "a4", "a2", "a6", "a7")
		b.awaitOrder()
		mark := b.journal.mark()
		b.cross()
		b.journal.await(t, mark, "reclaim run ended")
		stays := b.journal.await(t, mark, "image kept by the last check")
		if stays.Text("image") != b.scenario.ids["two"] || !strings.HasPrefix(stays.Text("reason"), "wanted by ") {
			t.Errorf("another one stays: %v", stays.Fields)
		}
		b.must(leftErr)
		after, err := b.namesOf("two")
		b.must(err)
		if len(before) != 2 || len(left) > 0 || !slices.Equal(after, before) {
			t.Errorf("it had the names %q, then %q, and has %q", before, left, after)
		}
		b.mustStay("two")
		b.checkRun(mark, "two")
		b.awaitReason("two", "wanted")
		b.use("two")
		b.stop()
		b.must(b.node.Whole(b.ctx))
	})
}
