package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/tools/node"
)

// fillToLastBlock takes what is reserved for root, too.
func (b *fixture) fillToLastBlock() {
	b.Helper()
	for _, size := range []int64{1 << 20, 64 << 10, 4 << 10} {
		for {
			err := b.node.Fill("fill", size)
			if errors.Is(err, unix.ENOSPC) {
				break
			}
			b.must(err)
		}
	}
}

// TestFullAtStart: nothing more can be written when the agent starts for the
// first time, neither its own state nor the snapshot that would show where a
// layer is. It removes images all the same.
func TestFullAtStart(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		b := newFixture(t, flavor, plains("a", 15)...)
		b.config.State.Directory = filepath.Join(b.node.Mount(), "state")
		b.sleepIn("a3")
		b.fillToLastBlock()
		b.startUnready()
		b.eventually("a low disk", b.notLow)
		b.awaitReady()
		b.mustStay("a3")
		// With room, layers are found and the state is written.
		b.importImages(plain("late", layerBytes))
		b.use("late")
		b.eventually("the use of an image that came later", func() error {
			i, err := b.verdict(b.scenario.ids["late"])
			if err == nil && i.LastUsed == nil {
				err = errors.New("never")
			}
			return err
		})
		b.awaitMetric("ebb_node_state_writable", 1)
	})
}

// TestFullWithRecords: on a disk that is full to the last block, the agent goes
// by what it and the kernel have recorded.
func TestFullWithRecords(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 14)...)
	b.config.State.Directory = filepath.Join(b.node.Mount(), "state")
	b.start()
	b.use("a3", "a13", "a6", "a1", "a9", "a5", "a12", "a10", "a0", "a8", "a4", "a11", "a2", "a7")
	b.awaitOrder()
	b.stop()
	b.use("a3", "a6")
	b.fillToLastBlock()
	mark := b.journal.mark()
	b.start()
	b.eventually("a low disk", b.notLow)
	b.awaitOrderOfRest()
	b.checkRun(mark)
}

// awaitOrderOfRest is awaitOrder without the images that are gone.
func (b *fixture) awaitOrderOfRest() {
	b.Helper()
	all := b.scenario.order
	gone := b.gone()
	b.scenario.order = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(gone, name) })
	b.awaitOrder()
	b.scenario.order = all
}

// TestHold: all that may go goes once; then the agent logs what holds the space
// and waits.
func TestHold(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 4)...)
	b.config.Images.Keep = []string{ref("a0")}
	b.sleepIn("a1")
	ends := b.sleepIn("a3")
	b.start()
	b.use("a2")
	mark := b.journal.mark()
	b.fill(93)
	line := b.journal.await(t, mark, "the low threshold cannot be reached; holding")
	for _, word := range []string{"not_images", "in_use", "keep_rule"} {
		b.contains("held_by", line.Text("held_by"), word)
	}
	b.awaitMetric("ebb_node_reclaim_holding", 1)
	b.eventually("the account of the space", b.wrongSpace)

	// An image that becomes unused now would be lost for nothing.
	b.end("a3", ends)
	b.awaitReason("a3", "hold")
	if got := b.removedNames(mark); !slices.Equal(got, []string{"a2"}) {
		t.Errorf("removed %v", got)
	}

	b.must(b.node.Unfill("fill"))
	b.importImages(plain("later", mib)) // frees wake nobody; the next event does
	b.journal.await(t, mark, "hold ended")
	b.awaitMetric("ebb_node_reclaim_holding", 0)
	b.awaitReason("a3", "not_needed")
}

func (b *fixture) contains(what, text, word string) {
	b.Helper()
	if !slices.Contains(splitWords(text), word) {
		b.Errorf("%s lacks %s: %s", what, word, text)
	}
}

// wrongSpace returns what is wrong with the agent's account of what holds the
// space: the parts must be what the test put there, and add up.
func (b *fixture) wrongSpace() error {
	s, err := b.status()
	if err != nil {
		return err
	}
	f := s.Filesystems[0]
	if f.Hold == nil {
		return errors.New("no hold")
	}
	by := make(map[string]page.HeldBy)
	var sum uint64
	for _, s := range f.Hold.HeldBy {
		by[s.By] = s
		sum += s.Bytes
	}
	const most = 2 * layerBytes
	for reason, images := range map[string]int{"in_use": 2, "keep_rule": 1} {
		if got := by[reason].Bytes; got < most || by[reason].Images != images {
			return fmt.Errorf("%s holds %d bytes of %d images", reason, got, by[reason].Images)
		}
	}
	if used := f.CapacityBytes - f.AvailableBytes; by["not_images"].Bytes < 100*mib || sum > used+mib || sum+mib < used {
		return fmt.Errorf("the parts add up to %d, used are %d: %v", sum, used, f.Hold.HeldBy)
	}
	return nil
}

// TestCap: a cap on removals per hour holds across restarts, and ends.
func TestCap(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 8)...)
	b.config.Images.MaxRemovalsPerHour = "2"
	b.start()
	b.use("a3", "a6", "a1", "a5", "a0", "a4", "a2", "a7")
	b.awaitOrder()
	mark := b.journal.mark()
	b.cross()
	b.journal.await(t, mark, "removals stop: the hourly cap is reached")
	b.awaitAtLeast(`ebb_node_reclaim_runs_total{result="capped"}`, 1)
	b.stop()
	again := b.journal.mark()
	b.start()
	b.journal.await(t, again, "removals stop: the hourly cap is reached")
	if got := b.removedNames(mark); !slices.Equal(got, []string{"a3", "a6"}) {
		t.Errorf("removed %v", got)
	}
	b.stop()
	b.editState(func(r *state.Records) {
		for n, at := range r.Meta.Removals {
			r.Meta.Removals[n] = at.Add(-time.Hour)
		}
	})
	b.forgetHistory()
	b.start()
	b.journal.await(t, again, "image removed")
	b.awaitReason("a7", "not_needed")
	if got := b.removedNames(mark); !slices.Equal(got, []string{"a3", "a6", "a1", "a5"}) {
		t.Errorf("removed %v", got)
	}
}

// TestCapAfterKill: an agent that is killed in the middle of a run and the next one remove no more together
// than the cap allows.
func TestCapAfterKill(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.V2, plains("a", 12)...)
	b.config.Images.MaxRemovalsPerHour = "3"
	b.start()
	b.use("a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11")
	b.awaitOrder()
	all := len(b.onNode())
	mark := b.journal.mark()
	b.fill(97) // far more than the cap allows has to go
	b.journal.await(t, mark, "image removed")
	b.kill()
	mark = b.journal.mark()
	b.start()
	b.journal.await(t, mark, "removals stop: the hourly cap is reached")
	if gone := all - len(b.onNode()); gone > 3 {
		t.Errorf("%d images are gone, the cap is 3", gone)
	}
}
