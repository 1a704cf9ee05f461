package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/tools/node"
)

// withdraw takes the names of images away as an agent does that is killed before it
// can end what it has begun.
func (b *bed) withdraw(names ...string) {
	b.Helper()
	rt, err := containerd.Connect(b.ctx, b.node.Socket(), slog.New(slog.DiscardHandler))
	b.must(err)
	for _, name := range names {
		b.must(withdraw(b.ctx, rt, b.cast.ids[name]))
	}
	b.must(rt.Close())
	b.eventually("the CRI to miss the images", func() error {
		for _, id := range b.onNode() {
			if slices.Contains(names, b.cast.name(id)) {
				return fmt.Errorf("image %s is still listed", b.cast.name(id))
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
		b := newBed(t, flavor, plains("a", 7)...)
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
