package fake_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

func oneImage(r *fake.Runtime, name string, layers ...fake.Layer) string {
	return r.Import(fake.CRINamespace, fake.Image{Name: name, Layers: layers})
}

func TestDiskFollowsRemovals(t *testing.T) {
	r := fake.New(nil)
	r.SetDisk(1000, 100, 50)
	base := fake.Layer{Name: "base", Bytes: 200, BlobBytes: 50, Inodes: 10}
	a := oneImage(r, "a", base, fake.Layer{Name: "a", Bytes: 30, BlobBytes: 20, Inodes: 1})
	b := oneImage(r, "b", base)

	used := func() uint64 { d := r.Disk(); return d.CapacityBytes - d.AvailableBytes }
	if got := used(); got != 400 {
		t.Errorf("used %d, want 400", got)
	}
	if got := r.Disk().InodesAvailable; got != 50-10-1-2 {
		t.Errorf("inodes available: %d", got)
	}
	if err := r.Remove(t.Context(), a); err != nil || used() != 350 {
		t.Errorf("used %d after the first sharer, %v; want 350", used(), err)
	}
	r.SetFaults(fake.Faults{Withheld: 0.5})
	if err := r.Remove(t.Context(), b); err != nil || used() != 225 {
		t.Errorf("used %d after the last, %v; want 225", used(), err)
	}
	if got := r.Removed(); !slices.Equal(got, []string{a, b}) {
		t.Errorf("removed %q", got)
	}
}

func TestFaults(t *testing.T) {
	r := fake.New(nil)
	id := oneImage(r, "a", fake.Layer{Name: "a", Bytes: 1})
	other := oneImage(r, "b", fake.Layer{Name: "b", Bytes: 1})
	bad := errors.New("bad")
	r.SetFaults(fake.Faults{Inventory: bad, Check: bad, Remove: map[string]error{id: bad}, Resolve: inventory.ErrNoSpace})

	if _, err := r.Inventory(t.Context()); !errors.Is(err, bad) {
		t.Errorf("inventory: %v", err)
	}
	if _, err := r.Check(t.Context(), id); !errors.Is(err, bad) {
		t.Errorf("check: %v", err)
	}
	if err := r.Remove(t.Context(), id); !errors.Is(err, bad) {
		t.Errorf("remove: %v", err)
	}
	if err := r.Remove(t.Context(), other); err != nil {
		t.Errorf("the other image: %v", err)
	}
	if _, err := r.ResolveLayer(t.Context(), inventory.Layer{}); !errors.Is(err, inventory.ErrNoSpace) {
		t.Errorf("resolve: %v", err)
	}
	r.SetFaults(fake.Faults{})
	r.SetBlocked("why")
	if inv, err := r.Inventory(t.Context()); err != nil || inv.Blocked != "why" || len(inv.Images) != 1 {
		t.Errorf("got %+v, %v", inv, err)
	}
}

func TestDelayEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fake.New(nil)
		r.SetFaults(fake.Faults{Delay: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Inventory(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		start := time.Now()
		if _, err := r.Inventory(t.Context()); err != nil || time.Since(start) != time.Minute {
			t.Errorf("took %v, %v", time.Since(start), err)
		}
	})
}

// What happens while the stream is down is lost: that is what Resync is for.
func TestCutStreamLosesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fake.New(nil)
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan inventory.Event, 16)
		done := make(chan error, 1)
		go func() { done <- r.Watch(ctx, out) }()
		synctest.Wait()

		cut := errors.New("cut")
		r.CutEvents(cut)
		oneImage(r, "lost")
		r.ResumeEvents()
		oneImage(r, "seen")
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("watch ended with %v", err)
		}
		close(out)
		var got []inventory.Event
		for e := range out {
			e.At = time.Time{}
			got = append(got, e)
		}
		want := []inventory.Event{
			{Kind: inventory.EventResync},
			{Kind: inventory.EventDown, Err: cut},
			{Kind: inventory.EventResync},
			{Kind: inventory.EventImage, Namespace: fake.CRINamespace, Image: "seen"},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
