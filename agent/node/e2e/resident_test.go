package e2e

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	agent "github.com/ebb-agent/ebb/agent/node"
	"github.com/ebb-agent/ebb/agent/node/pods"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
)

// resident is an agent inside the test.
type resident struct {
	cancel context.CancelFunc
	done   chan error
	probes *bpf.Probes
	client *http.Client // of its admin socket
}

// hooks are called around the withdrawal of an image, which each removal begins with.
// An error of before is the removal's. Either may be nil.
type hooks struct {
	before func(imageID string) error
	after  func(imageID string)
}

// hooked is the real runtime with hooks.
type hooked struct {
	agent.Runtime
	hooks
}

func (h hooked) Withdraw(ctx context.Context, i inventory.Image) (inventory.Withdrawal, error) {
	if h.before != nil {
		if err := h.before(i.ID); err != nil {
			return nil, err
		}
	}
	w, err := h.Runtime.Withdraw(ctx, i)
	if err == nil && h.after != nil {
		h.after(i.ID)
	}
	return w, err
}

// newResidentFixture is newFixture, and at the end a check for leaked goroutines. The
// test must not be parallel.
func newResidentFixture(t *testing.T, flavor node.Flavor, images ...node.Image) *fixture {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	return newFixture(t, flavor, images...)
}

// startInside runs the agent in the test, until it is ready.
func (b *fixture) startInside(beforeRemove func(imageID string) error) {
	b.Helper()
	b.startInsideOn(agent.RealDisk{}, beforeRemove)
}

// startInsideOn is startInside with faults of the disk.
func (b *fixture) startInsideOn(disk agent.Disk, beforeRemove func(imageID string) error) {
	b.Helper()
	b.startInsideWith(disk, nil, hooks{before: beforeRemove})
}

// startInsideWith is startInsideOn with somebody who knows the pods; nil: nobody does.
func (b *fixture) startInsideWith(disk agent.Disk, source pods.Source, h hooks) {
	b.Helper()
	log := slog.New(slog.NewJSONHandler(b.journal, nil))
	probes, err := bpf.Load(b.ctx, bpf.Options{PinDir: b.config.Kernel.PinDirectory, Logger: log})
	b.must(err)
	a, err := agent.New(agent.Options{
		Config: b.config, Probes: probes, Disk: disk, Pods: source, Log: log,
		Dial: func(ctx context.Context) (agent.Runtime, error) {
			rt, err := containerd.Connect(ctx, b.config.Runtime.Socket, log)
			if err != nil {
				return nil, err
			}
			return hooked{rt, h}, nil
		},
	})
	b.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &resident{cancel: cancel, done: make(chan error, 1), probes: probes, client: peers.UnixClient(b.config.Server.AdminSocket)}
	go func() { r.done <- a.Run(ctx) }()
	b.agent = r
	b.awaitReady()
}

// Get implements running.
func (r *resident) Get(ctx context.Context, path string) (string, error) {
	var body string
	err := peers.Request(ctx, r.client, http.MethodGet, "http://ebb"+path, nil, &body)
	return body, err
}

// Stop implements running.
func (r *resident) Stop() error {
	r.cancel()
	select {
	case err := <-r.done:
		return errors.Join(err, r.probes.Close())
	case <-time.After(patience):
		return errors.New("the agent does not end")
	}
}

// Kill implements running; a goroutine cannot be killed.
func (r *resident) Kill() error { return r.Stop() }

// TestContainerdKilledInRun: the run goes on where it was once containerd is
// back, and removes nothing in the place of what it could not remove.
func TestContainerdKilledInRun(t *testing.T) {
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		t.Run(string(flavor), func(t *testing.T) {
			b := newResidentFixture(t, flavor, plains("a", 8)...)
			var removals atomic.Int32
			b.startInside(func(string) error {
				if removals.Add(1) == 2 {
					return b.node.Kill() // nil: the removal goes to a dead containerd
				}
				return nil
			})
			b.use("a3", "a6", "a1", "a5", "a0", "a4", "a2", "a7")
			b.awaitOrder()
			mark := b.journal.mark()
			b.cross()
			b.journal.await(t, mark, "cannot read the node; trying again")
			b.awaitNotReady("runtime")
			b.must(b.node.Restart(b.ctx))
			b.eventually("a low disk", b.notLow)
			b.awaitReady()
			b.checkRun(mark)
			if got := b.metric("ebb_node_image_removal_failures_total"); got != 0 {
				t.Errorf("%g images were blamed for containerd's end", got)
			}
		})
	}
}

// TestRemovalFails: one image that cannot be removed does not hold up the
// others.
func TestRemovalFails(t *testing.T) {
	b := newResidentFixture(t, node.Debian, plains("a", 8)...)
	b.startInside(func(id string) error {
		if id == b.scenario.ids["a6"] {
			return errors.New("made to fail")
		}
		return nil
	})
	b.use("a3", "a6", "a1", "a5", "a0", "a4", "a2", "a7")
	b.awaitOrder()
	mark := b.journal.mark()
	b.cross()
	b.journal.await(t, mark, "reclaim run ended")
	b.checkRun(mark, "a6")
	b.awaitReason("a6", "removal_failed")
	if got := b.metric("ebb_node_image_removal_failures_total"); got != 1 {
		t.Errorf("%g failures were counted", got)
	}
	failed := b.journal.await(t, mark, "image could not be removed; continuing with others")
	if failed.Text("image") != b.scenario.ids["a6"] || failed.Text("error") != "made to fail" {
		t.Errorf("the failure was logged as %v", failed.Fields)
	}
}

// TestTouchedInRun: an image that comes into use while the run is at work on
// others stays.
func TestTouchedInRun(t *testing.T) {
	b := newResidentFixture(t, node.Debian, plains("a", 8)...)
	var once atomic.Bool
	b.startInside(func(string) error {
		if !once.Swap(true) {
			b.sleepIn("a1")
			b.use("a5")
		}
		return nil
	})
	b.use("a3", "a6", "a1", "a5", "a0", "a4", "a2", "a7")
	b.awaitOrder()
	mark := b.journal.mark()
	b.cross()
	b.journal.await(t, mark, "reclaim run ended")
	if got := b.removedNames(mark); slices.Contains(got, "a1") || got[0] != "a3" {
		t.Errorf("FINAL: removed %v", got)
	}
	b.mustStay("a1")
	b.checkRun(mark, "a1") // a5 is the newest now
}

// stuckDisk is the real disk, but while stuck no figure is made true in time.
type stuckDisk struct {
	agent.RealDisk
	stuck *atomic.Bool
}

func (d stuckDisk) Settle(ctx context.Context, path string, reached func(image.Disk) bool) (image.Disk, error) {
	if !d.stuck.Load() {
		return d.RealDisk.Settle(ctx, path, reached)
	}
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	disk, _, err := d.Stat(path)
	return disk, errors.Join(err, context.Cause(ctx))
}

// TestDiskDoesNotSettle: a btrfs whose figure cannot be made true after a removal
// does not hold up the run. What goes is what has to go by computation, no more,
// and the agent is ready all the time.
func TestDiskDoesNotSettle(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	b := newFixtureOn(t, "btrfs", node.V2, plains("a", 9)...)
	b.config.Images.LowThresholdPercent = 70
	var stuck atomic.Bool
	var once sync.Once
	b.startInsideOn(stuckDisk{stuck: &stuck}, func(string) error {
		once.Do(func() { stuck.Store(true) })
		return nil
	})
	b.use("a3", "a6", "a1", "a8", "a5", "a0", "a4", "a2", "a7")
	b.awaitOrder()
	mark := b.journal.mark()
	b.cross()
	if end := b.journal.await(t, mark, "reclaim run ended"); end.Text("result") != "shortfall" {
		t.Errorf("the run ended as %v", end.Fields)
	}
	_, err := b.agent.Get(b.ctx, "/readyz")
	b.must(err)
	if gone := b.removedNames(mark); len(gone) < 2 || len(gone) > 6 {
		t.Errorf("gone are %v", gone)
	}
	unstuck := b.journal.mark()
	stuck.Store(false)
	b.journal.await(t, unstuck, "the disk shows what was removed")
	b.eventually("a low disk", b.notLow) // what was written meanwhile was not in the figure, either
	if n := len(b.journal.since(mark, "the freed space does not show yet; continuing with the computed value")); n != 1 {
		t.Errorf("it was logged %d times that the disk does not show it", n)
	}
	b.checkRun(mark)
	if got := b.metric("ebb_node_inventory_failures_total"); got != 0 {
		t.Errorf("%g looks failed", got)
	}
}

// refusedDisk is the real disk without the right to have its figure made true.
type refusedDisk struct{ agent.RealDisk }

func (d refusedDisk) Settle(_ context.Context, path string, _ func(image.Disk) bool) (image.Disk, error) {
	disk, _, err := d.Stat(path)
	return disk, errors.Join(err, unix.EPERM)
}

// TestSettlingIsRefused: an agent that may not wait for xfs' workers removes what has
// to go all the same, beside others' deletions, and no more.
func TestSettlingIsRefused(t *testing.T) {
	b := newFixtureOn(t, "xfs", node.V2, plains("a", 9)...)
	b.config.Images.LowThresholdPercent = 70
	b.startInsideOn(refusedDisk{}, func(string) error { return nil })
	b.use("a3", "a6", "a1", "a8", "a5", "a0", "a4", "a2", "a7")
	b.awaitOrder()
	busy := b.churn(200)
	mark := b.journal.mark()
	b.cross()
	b.journal.await(t, mark, "reclaim run ended")
	busy.stop()
	b.checkRun(mark)
	if got := b.metric("ebb_node_inventory_failures_total"); got != 0 {
		t.Errorf("%g looks failed", got)
	}
}
