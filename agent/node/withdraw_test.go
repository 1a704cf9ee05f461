package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// What turns up while an image's names are away brings them back.
func TestImageIsNeededAtTheLastMoment(t *testing.T) {
	tests := map[string]func(*world, string){
		"a pod": func(w *world, _ string) { w.pods.set(nil, kube.Pod{UID: "1", Images: []string{"i0"}}) },
		"a container": func(w *world, _ string) {
			w.rt.Snapshot(fake.CRINamespace, "new", "shares-i0")
		},
	}
	for name, during := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.pods = &fakePods{}
				i0 := w.add("docker.io/library/i0:latest", 40)
				// Of the same layers, in the other namespace, so that something can come
				// to stand on them while the names are away.
				w.rt.Import(fake.CRINamespace, fake.Image{Name: "shares-i0", Config: "other", Layers: []fake.Layer{
					{Name: "docker.io/library/i0:latest", Bytes: 20 * mib, Inodes: 10, BlobBytes: 20 * mib}}})
				i1 := w.add("i1", 100)
				w.rt.Pin("shares-i0")
				w.up()
				w.use("docker.io/library/i0:latest")
				w.use("i1")
				w.rt.SetFaults(fake.Faults{During: func(id string) {
					if id == i0 {
						during(w, id)
					}
				}})
				_ = i1
				w.agent.cfg.Images.MaximumAge = 0
				w.fill(99)
				w.pass(time.Second)
				for _, id := range w.rt.Removed() {
					if id == i0 {
						t.Error("it was removed")
					}
				}
			})
		})
	}
}

// A withdrawal that cannot be ended is mended, also by the next agent, and the
// image is removed after all.
func TestWithdrawalIsMended(t *testing.T) {
	for name, again := range map[string]func(*world){
		"by the same agent": func(w *world) { w.pass(time.Hour) },
		"by the next agent": func(w *world) { w.down(); w.up(); w.pass(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				ids := w.five()
				w.rt.SetFaults(fake.Faults{End: errors.New("bolt: timeout")})
				w.fill(81)
				w.wantRemoved()
				if n, _ := w.rt.Inventory(context.Background()); len(n.Images) == 5 {
					t.Fatal("no image lost its names: there is nothing to test")
				}
				w.rt.SetFaults(fake.Faults{})
				again(w)
				if n := w.metric("ebb_node_images_mended_total"); n == 0 {
					t.Error("nothing was mended")
				}
				if got := len(w.rt.Removed()); got != 2 {
					t.Errorf("%d images removed, want 2 of %q", got, ids)
				}
				inv, err := w.rt.Inventory(context.Background())
				if err != nil || len(inv.Images) != 3 {
					t.Errorf("%d images are left, %v; want 3", len(inv.Images), err)
				}
			})
		})
	}
}

func TestLastLookFails(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.rt.SetFaults(fake.Faults{Users: errors.New("timeout")})
		w.fill(81)
		w.wantRemoved()
		w.wantLogged(1, "image could not be removed", "look whether it came into use: timeout", ids[0])
		inv, err := w.rt.Inventory(context.Background())
		if err != nil || len(inv.Images) != 5 {
			t.Errorf("%d images have their names, %v", len(inv.Images), err)
		}
	})
}

// A disk too full to withdraw is not too full to remove.
func TestNoSpaceToWithdraw(t *testing.T) {
	for _, fault := range []error{inventory.ErrNoSpace, inventory.ErrUnsupported} {
		inWorld(t, func(w *world) {
			ids := w.five()
			w.rt.SetFaults(fake.Faults{Withdraw: fault})
			w.fill(81)
			w.wantRemoved(ids[0], ids[1])
			w.wantReason(ids[2], image.KeptNotNeeded)
		})
	}
}
