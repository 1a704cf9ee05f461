package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/tools/node"
)

// TestReclaimOnBusyDisk: somebody makes, syncs and deletes files all the time, so
// that free space always changes. The low threshold is reached ("make bench-writers" measures
// how fast), no image goes that did not have to, and what others free is not taken for
// what removals have freed.
func TestReclaimOnBusyDisk(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, []string{"xfs", "btrfs", "ext4"}, func(t *testing.T, kind string) {
		b := newFixtureOn(t, kind, node.V2, plains("a", 12)...)
		b.config.Images.LowThresholdPercent = 70
		b.start()
		b.use("a3", "a6", "a1", "a9", "a5", "a10", "a0", "a8", "a4", "a11", "a2", "a7")
		b.awaitOrder()
		busy := b.churn(200)
		b.eventually("a busy disk", func() error {
			if n := busy.deleted.Load(); n < 200 {
				return fmt.Errorf("%d files were deleted", n)
			}
			return nil
		})
		mark := b.journal.mark()
		b.cross()
		begun := b.journal.await(t, mark, "filesystem reached its high threshold")
		n := busy.deleted.Load()
		end := b.journal.await(t, mark, "reclaim run ended")
		took := end.Time.Sub(begun.Time)
		t.Logf("%v to the low threshold, beside %.0f deletions a second; gone are %v",
			took, float64(busy.deleted.Load()-n)/took.Seconds(), b.removedNames(mark))
		b.checkLow(end, b.notLow)
		if n := len(b.removals(mark)); n < 2 {
			t.Errorf("%d images went", n)
		}
		for _, l := range b.removals(mark) {
			if l.Number("freed_bytes") > l.Number("computed_bytes") {
				t.Errorf("more is reported as freed than was computed: %v", l.Fields)
			}
		}
		if got := b.metric("ebb_node_inventory_failures_total"); got != 0 {
			t.Errorf("%g looks failed", got)
		}
		busy.stop()
		b.checkRun(mark)
	})
}

// churn is somebody who makes files and deletes them.
type churn struct {
	deleted atomic.Int64
	stop    func()
}

// churn makes, syncs and deletes files of 64 KiB, so many a second as the disk
// allows, until its stop is called, or the test ends.
func (b *fixture) churn(perSecond int) *churn {
	b.Helper()
	const writers = 4
	dir := filepath.Join(b.node.Mount(), "churn")
	b.must(os.MkdirAll(dir, 0o711))
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	c := &churn{}
	for n := range writers {
		g.Go(func() error {
			turn := time.NewTicker(writers * time.Second / time.Duration(perSecond))
			defer turn.Stop()
			name := filepath.Join(dir, fmt.Sprint(n))
			for {
				select {
				case <-turn.C:
				case <-ctx.Done():
					return nil
				}
				if err := writeSynced(name); err != nil {
					return err
				}
				if err := os.Remove(name); err != nil {
					return err
				}
				c.deleted.Add(1)
			}
		})
	}
	stopped := false
	c.stop = func() {
		cancel()
		if err := g.Wait(); err != nil && !stopped {
			b.Errorf("churn: %v", err)
		}
		stopped = true
	}
	b.Cleanup(c.stop)
	return c
}

func writeSynced(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Sync(), f.Close())
}
