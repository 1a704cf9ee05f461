package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
	"github.com/ebb-agent/ebb/tools/socketrelay"
)

// eachFlavor runs a test on a fresh node of each containerd.
func eachFlavor(t *testing.T, test func(t *testing.T, h *realNode)) {
	for _, flavor := range flavors {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel() // with the other containerd
			test(t, &realNode{startNode(t, flavor), map[string]*node.Container{}, map[string]*node.Pod{}})
		})
	}
}

func find(t testing.TB, r *containerd.Runtime, id string) inventory.Image {
	t.Helper()
	inv, err := r.Inventory(t.Context())
	must(t, "inventory", err)
	i := slices.IndexFunc(inv.Images, func(i inventory.Image) bool { return i.ID == id })
	if i < 0 {
		t.Fatalf("image %s is not in the inventory", id)
	}
	return inv.Images[i]
}

func containerOf(t testing.TB, r *containerd.Runtime, id string) inventory.Container {
	t.Helper()
	inv, err := r.Inventory(t.Context())
	must(t, "inventory", err)
	i := slices.IndexFunc(inv.Containers, func(c inventory.Container) bool { return c.ID == id })
	if i < 0 {
		t.Fatalf("container %s is not in the inventory", id)
	}
	return inv.Containers[i]
}

// A pod as the kubelet makes it: the CRI knows its container's image by ID, and
// its sandbox runs the sandbox image.
func TestPod(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		r := connect(t, h.Node)
		id := h.Import(t, node.CRINamespace, Image{Name: "pod.test/app:1", Runnable: true})
		other := h.Import(t, node.CRINamespace, Image{Name: "pod.test/other:1", Runnable: true, Variant: "2",
			Layers: []Layer{{Seed: "pod-other", Bytes: 1 << 10}}})
		pod, err := h.Node.RunPod(t.Context(), node.PodSpec{Name: "app", Containers: []node.PodContainer{{Name: "c", Image: "pod.test/app:1"}}})
		must(t, "run pod", err)
		t.Cleanup(func() { must(t, "remove pod", pod.Remove(context.WithoutCancel(t.Context()))) })

		// From now on the name means another image.
		h.Tag(t, node.CRINamespace, "pod.test/other:1", "pod.test/app:1")
		container := "container k8s.io/" + pod.Containers["c"]
		if used := find(t, r, id).UsedBy; !slices.Contains(used, container) {
			t.Errorf("used by %q, want %q", used, container)
		}
		fresh, err := r.Check(t.Context(), id)
		if err != nil || !slices.Contains(fresh[id].UsedBy, container) {
			t.Errorf("check: used by %q, %v; want %q", fresh[id].UsedBy, err, container)
		}
		if used := find(t, r, other).UsedBy; len(used) > 0 {
			t.Errorf("the image that took the name is used by %q", used)
		}
		if used := find(t, r, h.SandboxImage(t)).UsedBy; !slices.Contains(used, "container k8s.io/"+pod.ID) {
			t.Errorf("the sandbox image is used by %q", used)
		}
		for id, want := range map[string]inventory.Pod{
			pod.Containers["c"]: {Namespace: "default", Name: "app", Container: "c"},
			pod.ID:              {Namespace: "default", Name: "app"},
		} {
			if got := containerOf(t, r, id).Pod; got != want {
				t.Errorf("container %s is %+v, want %+v", id, got, want)
			}
		}
	})
}

// A container that another client deleted behind the CRI's back keeps its image: the kubelet has not removed it yet.
// The last look of a removal sees it, and the inventory must too, or the image is withdrawn again and again.
func TestContainerThatOnlyTheCRIKnows(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		r := connect(t, h.Node)
		id := h.Import(t, node.CRINamespace, Image{Name: "pod.test/app:1", Runnable: true})
		pod, err := h.Node.RunPod(t.Context(), node.PodSpec{Name: "app", Containers: []node.PodContainer{{Name: "c", Image: "pod.test/app:1"}}})
		must(t, "run pod", err)
		t.Cleanup(func() { must(t, "remove pod", pod.Remove(context.WithoutCancel(t.Context()))) })
		c := pod.Containers["c"]
		h.EndContainer(t, c)
		wantEnded(t, r, c)
		in := h.in(t, node.CRINamespace)
		loaded, err := h.Client().LoadContainer(in, c)
		must(t, "load container", err)
		must(t, "delete its record", loaded.Delete(in, client.WithSnapshotCleanup))

		img := find(t, r, id)
		if want := "container k8s.io/" + c; !slices.Contains(img.UsedBy, want) || img.InUse {
			t.Errorf("used by %q, by one that has not ended: %v; want %q, false", img.UsedBy, img.InUse, want)
		}
		fresh, err := r.Check(t.Context(), id)
		if err != nil || !slices.Equal(fresh[id].UsedBy, img.UsedBy) {
			t.Errorf("check: used by %q, %v; want %q", fresh[id].UsedBy, err, img.UsedBy)
		}
		w, err := r.Withdraw(t.Context(), img)
		must(t, "withdraw", err)
		users, err := r.Users(t.Context(), w)
		if err != nil || !slices.Equal(users[0], img.UsedBy) {
			t.Errorf("the last look: used by %q, %v; want %q", users, err, img.UsedBy)
		}
		must(t, "restore", w.Restore(t.Context()))
	})
}

func TestSandboxImageIsKnown(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		img := find(t, connect(t, h.Node), h.SandboxImage(t))
		v, err := h.Client().Version(t.Context())
		must(t, "version", err)
		version := strings.TrimPrefix(v.Version, "v")
		if pinned := !strings.HasPrefix(version, "1.6."); img.Pinned != pinned {
			t.Errorf("pinned by %s: %v", version, img.Pinned)
		}
		if named := strings.HasPrefix(version, "1."); img.Sandbox != named {
			t.Errorf("known by name to %s: %v", version, img.Sandbox)
		}
	})
}

// TestSandboxImageThatNothingPins: containerd 2 pins the image whose name is in its configuration letter by
// letter, and no other spelling of it. Of that one nothing is known until a pod has run; then it stays, also
// when the pod is gone.
func TestSandboxImageThatNothingPins(t *testing.T) {
	const short = "node.test/pause"
	n := nodetest.Start(t, node.Config{Containerd: node.V2, Sandbox: short})
	in := namespaces.WithNamespace(t.Context(), node.CRINamespace)
	store := n.Client().ImageService()
	pause, err := store.Get(in, node.SandboxImage)
	must(t, "get sandbox image", err)
	_, err = store.Create(in, images.Image{Name: short + ":latest", Target: pause.Target})
	must(t, "tag", err)
	_, err = n.Import(t.Context(), node.CRINamespace, node.Image{Name: "seen.test/a:1"})
	must(t, "import", err)
	r := connect(t, n)
	look := func() (blocked string, sandbox bool) {
		inv, err := r.Inventory(t.Context())
		must(t, "inventory", err)
		for _, i := range inv.Images {
			if slices.Contains(i.References, node.SandboxImage) {
				if i.Pinned {
					t.Error("it is pinned: this containerd compares names in another way")
				}
				return inv.Blocked, i.Sandbox
			}
		}
		t.Fatal("the sandbox image is not listed")
		return "", false
	}
	if blocked, sandbox := look(); blocked == "" || sandbox {
		t.Errorf("without a pod: blocked %q, sandbox %v", blocked, sandbox)
	}
	pod, err := n.RunPod(t.Context(), node.PodSpec{Name: "seen", Containers: []node.PodContainer{{Name: "c", Image: "seen.test/a:1", Command: []string{"sleep", "600"}}}})
	must(t, "run pod", err)
	if blocked, sandbox := look(); blocked != "" || !sandbox {
		t.Errorf("with a pod: blocked %q, sandbox %v", blocked, sandbox)
	}
	must(t, "remove pod", pod.Remove(t.Context()))
	if blocked, sandbox := look(); blocked != "" || !sandbox {
		t.Errorf("after the pod: blocked %q, sandbox %v", blocked, sandbox)
	}
}

func TestRoots(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		got, err := connect(t, h.Node).Roots(t.Context())
		snapshots := filepath.Join(h.Root(), "io.containerd.snapshotter.v1."+snapshotter)
		want := inventory.Roots{
			Images: snapshots, Containers: snapshots, Content: filepath.Join(h.Root(), "io.containerd.content.v1.content"),
		}
		if err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	})
}

// A run that crashed between a view and its removal leaves the view and its lease. It is
// neither a use nor a holder, and the next Connect removes both.
func TestLeftoverViews(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		r := connect(t, h.Node)
		id := h.Import(t, node.CRINamespace, Image{Name: "left.test/a:1", Layers: []Layer{{Seed: "left", Bytes: 1 << 20}}})
		ctx := h.in(t, node.CRINamespace)
		const label = "ebb-agent.github.io/layer-view"
		l, err := h.Client().LeasesService().Create(ctx, leases.WithID("left"), leases.WithExpiration(time.Hour),
			leases.WithLabel(label, "crashed"))
		must(t, "lease", err)
		_, err = h.Client().SnapshotService(snapshotter).View(leases.WithLease(ctx, l.ID), "ebb-view-crashed-1",
			h.chain(t, node.CRINamespace, "left.test/a:1"), snapshots.WithLabels(map[string]string{label: "crashed"}))
		must(t, "view", err)

		img := find(t, r, id)
		if len(img.UsedBy) > 0 {
			t.Errorf("used by %q", img.UsedBy)
		}
		inv, err := r.Inventory(t.Context())
		must(t, "inventory", err)
		for _, holder := range inv.Graph.Holders {
			if holder.Kind == "lease" {
				t.Errorf("our lease is a holder: %+v", holder)
			}
		}
		connect(t, h.Node)
		if left := h.Leftovers(t); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		if list, err := h.Client().LeasesService().List(ctx); err != nil || len(list) > 0 {
			t.Errorf("left: %v, %v", list, err)
		}
	})
}

// Close gives the lease back; views cost one lease for many.
func TestLeases(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		r, err := containerd.Connect(t.Context(), h.Socket(), slog.New(slog.DiscardHandler))
		must(t, "connect", err)
		ours := func() (n int) {
			list, err := h.Client().LeasesService().List(h.in(t, node.CRINamespace))
			must(t, "list leases", err)
			for _, l := range list {
				if l.Labels["ebb-agent.github.io/layer-view"] != "" {
					n++
					if l.Labels["containerd.io/gc.expire"] == "" {
						t.Error("the lease does not expire")
					}
				}
			}
			return n
		}
		for i := range 3 {
			id := h.Import(t, node.CRINamespace, Image{Name: fmt.Sprintf("lease.test/a:%d", i),
				Layers: []Layer{{Seed: fmt.Sprint("lease", i), Bytes: 1 << 10}}})
			_, err := r.ResolveLayer(t.Context(), find(t, r, id).Layers[0])
			must(t, "resolve", err)
		}
		if n := ours(); n != 1 {
			t.Errorf("%d leases for three views", n)
		}
		must(t, "close", r.Close())
		if n := ours(); n != 0 {
			t.Errorf("%d leases after Close", n)
		}
	})
}

// A caller that loses patience leaves neither a lease nor a view.
func TestCutOffViews(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		r, err := containerd.Connect(t.Context(), h.Socket(), slog.New(slog.DiscardHandler))
		must(t, "connect", err)
		id := h.Import(t, node.CRINamespace, Image{Name: "cut.test/a:1", Layers: []Layer{{Seed: "cut", Bytes: 1 << 10}}})
		layer, done := find(t, r, id).Layers[0], 0
		for i := 0; done < 20; i++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
			if _, err := r.ResolveLayer(ctx, layer); err == nil {
				done++
			}
			cancel()
		}
		must(t, "close", r.Close())
		if list, err := h.Client().LeasesService().List(h.in(t, node.CRINamespace)); err != nil || len(list) > 0 {
			t.Errorf("left: %v, %v", list, err)
		}
		if left := h.Leftovers(t); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// Where snapshots report where they are, no view is made, and the answer is the kernel's.
func TestUpperdirLabel(t *testing.T) {
	for _, flavor := range flavors {
		t.Run(string(flavor), func(t *testing.T) {
			n := nodetest.Start(t, node.Config{Containerd: flavor, SizeBytes: 512 << 20, UpperdirLabel: true})
			h := &realNode{n, map[string]*node.Container{}, map[string]*node.Pod{}}
			r := connect(t, n)
			id := h.Import(t, node.CRINamespace, Image{Name: "label.test/a:1",
				Layers: []Layer{{Seed: "below", Bytes: 1 << 10}, {Seed: "top", Bytes: 1 << 10}}, Runnable: true})
			got, err := r.ResolveLayer(t.Context(), find(t, r, id).Layers[0])
			must(t, "resolve", err)
			list, err := h.Client().LeasesService().List(h.in(t, node.CRINamespace))
			must(t, "list leases", err)
			if len(list) > 0 {
				t.Errorf("leases %v: a view was made", list)
			}
			h.Run(t, node.CRINamespace, "c", "label.test/a:1")
			below := 2 // one has the shell
			if want := h.LowerDir(t, node.CRINamespace, "c"); got.Path != want || len(got.Below) != below {
				t.Errorf("the layer is at %s with %d below, want %s and %d", got.Path, len(got.Below), want, below)
			}
		})
	}
}

// The same runtime works again after containerd was killed, without Watch.
func TestCallsAfterRestart(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		r := connect(t, h.Node)
		id := h.Import(t, node.CRINamespace, Image{Name: "again.test/a:1", Layers: []Layer{{Seed: "again", Bytes: 1 << 10}}})
		must(t, "kill", h.Kill())
		if _, err := r.Inventory(t.Context()); err == nil {
			t.Error("an inventory of a dead containerd")
		}
		must(t, "restart", h.Restart(t.Context()))
		deadline := time.Now().Add(20 * time.Second)
		for {
			checked, err := r.Check(t.Context(), id)
			if err == nil && checked[id].ID == id {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("still failing: %v", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// Content that has gone from under a record: the image cannot be described, so
// it is not offered; and nothing panics.
func TestIncompleteImage(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		id := h.Import(t, node.CRINamespace, Image{Name: "part.test/a:1", Layers: []Layer{{Seed: "part", Bytes: 1 << 10}}})
		ctx := h.in(t, node.CRINamespace)
		img, err := h.Client().ImageService().Get(ctx, "part.test/a:1")
		must(t, "get", err)
		must(t, "delete content", h.Client().ContentStore().Delete(ctx, img.Target.Digest))
		r := connect(t, h.Node)
		inv, err := r.Inventory(t.Context())
		must(t, "inventory", err)
		if slices.ContainsFunc(inv.Images, func(i inventory.Image) bool { return i.ID == id }) {
			t.Error("an image without its manifest is offered")
		}
		if checked, err := r.Check(t.Context(), id); err != nil || len(checked) > 0 {
			t.Errorf("check: %v, %v; want not found", checked, err)
		}
	})
}

// What one Runtime has learnt spares the next one to ask, unless it cannot be right.
func TestLearnt(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		id := h.Import(t, node.CRINamespace, Image{Name: "learnt.test/a:1", Layers: []Layer{{Seed: "learnt", Bytes: 1 << 10}}})
		first, second := connect(t, h.Node), connect(t, h.Node)
		layer := find(t, first, id).Layers[0]
		facts, changes := first.Learnt(0)
		if again, same := first.Learnt(changes); again != nil || same != changes {
			t.Errorf("learnt %v, %d changes, after %d", again, same, changes)
		}
		const odd = 123456789 // nothing that the runtime would answer
		snapshot := inventory.SnapshotID{Namespace: layer.Namespace, Snapshotter: layer.Snapshotter, Key: layer.ChainID}
		size := facts.Sizes[snapshot]
		size.Bytes = odd
		facts.Sizes[snapshot] = size
		facts.Targets["sha256:hostile"] = inventory.Target{ImageID: "../../etc"}
		second.Learn(*facts)
		inv, err := second.Inventory(t.Context())
		must(t, "inventory", err)
		if got := inv.Snapshots[layer].Bytes; got != odd {
			t.Errorf("the layer takes %d bytes: it was asked for again", got)
		}
		must(t, "remove", second.Remove(t.Context(), id))
		_, err = second.Inventory(t.Context())
		must(t, "inventory", err)
		if left, _ := second.Learnt(0); len(left.Sizes) != len(facts.Sizes)-1 || len(left.Targets) != len(facts.Targets)-2 {
			t.Errorf("%d sizes and %d targets are left of %d and %d", len(left.Sizes), len(left.Targets), len(facts.Sizes), len(facts.Targets))
		}
		// Made anew, it is another snapshot.
		size.Created = size.Created.Add(-time.Hour)
		facts.Sizes[snapshot] = size
		h.Import(t, node.CRINamespace, Image{Name: "learnt.test/a:1", Layers: []Layer{{Seed: "learnt", Bytes: 1 << 10}}})
		third := connect(t, h.Node)
		third.Learn(*facts)
		inv, err = third.Inventory(t.Context())
		must(t, "inventory", err)
		if got := inv.Snapshots[layer].Bytes; got == odd || got == 0 {
			t.Errorf("a new snapshot takes %d bytes", got)
		}
	})
}

// behindRelay starts a node with an image, and connects to it through a relay.
func behindRelay(t *testing.T) (h *realNode, r *containerd.Runtime, relay *socketrelay.Relay, image string) {
	t.Helper()
	h = &realNode{startNode(t, node.Debian), map[string]*node.Container{}, map[string]*node.Pod{}}
	image = h.Import(t, node.CRINamespace, Image{Name: "relay.test/a:1", Layers: []Layer{{Seed: "relay", Bytes: 1 << 20}}})
	relay, err := socketrelay.Start(filepath.Join(t.TempDir(), "s"), h.Socket())
	must(t, "relay", err)
	t.Cleanup(func() { must(t, "close the relay", relay.Close()) })
	r, err = containerd.Connect(t.Context(), relay.Addr(), slog.New(slog.DiscardHandler))
	must(t, "connect", err)
	t.Cleanup(func() { must(t, "close", r.Close()) })
	return h, r, relay, image
}

// A runtime that answers no more does not keep its caller: all names of a group have one bound, which is the
// caller's.
func TestRestoreEndsWithItsCaller(t *testing.T) {
	h, r, relay, id := behindRelay(t)
	w, err := r.Withdraw(t.Context(), find(t, r, id))
	must(t, "withdraw", err)

	relay.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	restored := make(chan error, 1)
	go func() { restored <- w.Restore(ctx) }()
	cancel()
	select {
	case err := <-restored:
		if err == nil {
			t.Error("a runtime that does not answer has restored the names")
		}
	case <-time.After(30 * time.Second):
		t.Error("Restore goes on without its caller")
		relay.Thaw()
		<-restored
	}
	relay.Thaw()
	if mended, err := connect(t, h.Node).Mend(t.Context()); err != nil || !slices.Equal(mended, []string{id}) {
		t.Errorf("mended %q, %v", mended, err)
	}
}

// A name that another image gets while the first one is withdrawn is that one's, also after the first one has its names
// back.
func TestNameMovesWhileItIsTaken(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		const name = "moves.test/a:1"
		old := h.Import(t, node.CRINamespace, Image{Name: name, Layers: []Layer{{Seed: "old", Bytes: 1 << 10}}})
		r := connect(t, h.Node)
		var newer string
		w, err := r.WithdrawAfter(t.Context(), find(t, r, old), func() {
			newer = h.Import(t, node.CRINamespace, Image{Name: name, Layers: []Layer{{Seed: "new", Bytes: 1 << 10}}})
		})
		must(t, "withdraw", err)
		for _, when := range []string{"withdrawn", "restored"} {
			if i := find(t, r, newer); !slices.Contains(i.References, name) {
				t.Errorf("%s: the newer image has the names %q", when, i.References)
			}
			must(t, "restore", w.Restore(t.Context()))
		}
	})
}

// A withdrawal that fails has restored the names, or reports that Mend must.
func TestWithdrawalFails(t *testing.T) {
	h, r, relay, id := behindRelay(t)
	for _, c := range []struct {
		freeze func()
		want   error
		mended []string
	}{
		{func() {}, inventory.ErrNamesBack, nil}, {relay.Freeze, inventory.ErrNamesAway, []string{id}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := r.WithdrawAfter(ctx, find(t, r, id), func() { c.freeze(); cancel() })
		relay.Thaw()
		if !errors.Is(err, c.want) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, c.want)
		}
		if mended, err := connect(t, h.Node).Mend(t.Context()); err != nil || !slices.Equal(mended, c.mended) {
			t.Errorf("mended %q, %v; want %q", mended, err, c.mended)
		}
	}
}

// A lease that holds nothing, as a crash, or a disk that is full, leaves it before the
// image's content is put under it. Should the image go meanwhile, its names stay away:
// they would lead nowhere, and whoever needs the image would not pull it.
func TestMendWithoutContent(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		id := h.Import(t, node.CRINamespace, Image{Name: "bare.test/a:1", Layers: []Layer{{Seed: "bare", Bytes: 1 << 10}}})
		r := connect(t, h.Node)
		w, err := r.Withdraw(t.Context(), find(t, r, id))
		must(t, "withdraw", err)
		ctx := h.in(t, node.CRINamespace)
		manager := h.Client().LeasesService()
		list, err := manager.List(ctx)
		must(t, "list leases", err)
		if len(list) != 1 {
			t.Fatalf("%d leases, want the withdrawal's", len(list))
		}
		_, err = manager.Create(ctx, leases.WithID("bare"), leases.WithLabels(list[0].Labels))
		must(t, "create lease", err)
		must(t, "complete", w.Complete(t.Context(), true))
		if mended, err := r.Mend(t.Context()); err != nil || len(mended) > 0 {
			t.Errorf("mended %q, %v", mended, err)
		}
		if _, err := h.Client().ImageService().Get(ctx, "bare.test/a:1"); !errdefs.IsNotFound(err) {
			t.Errorf("the name is back without its content: %v", err)
		}
		if list, err := manager.List(ctx); err != nil || len(list) > 0 {
			t.Errorf("leases are left: %v, %v", list, err)
		}
	})
}

// A disk that is full to the last block when ebb starts: everything that
// reclaim needs works.
func TestFullDisk(t *testing.T) {
	eachFlavor(t, func(t *testing.T, h *realNode) {
		id := h.Import(t, node.CRINamespace, Image{Name: "full.test/a:1", Layers: []Layer{{Seed: "full", Bytes: 1 << 20}}})
		undo := h.FillDisk(t)
		defer undo()
		r := connect(t, h.Node)
		if got := find(t, r, id); len(got.Layers) != 1 || len(got.Roots) == 0 {
			t.Errorf("got %+v", got)
		}
		_, err := r.Check(t.Context(), id)
		must(t, "check", err)
		before := h.StoredBytes(t)
		must(t, "remove", r.Remove(t.Context(), id))
		if freed := before - h.StoredBytes(t); freed < 2<<20 {
			t.Errorf("removal freed %d bytes", freed)
		}
	})
}

// Neither a Runtime nor its Watch leaves a goroutine.
func TestNothingRunsAfterClose(t *testing.T) {
	h := &realNode{startNode(t, node.Debian), nil, nil}
	before := goleak.IgnoreCurrent() // the node's own clients
	r, err := containerd.Connect(t.Context(), h.Socket(), slog.New(slog.DiscardHandler))
	must(t, "connect", err)
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan inventory.Event)
	done := make(chan error)
	go func() { done <- r.Watch(ctx, events) }()
	<-events
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("watch ended with %v", err)
	}
	must(t, "close", r.Close())
	goleak.VerifyNone(t, before)
}

// BenchmarkBusyNode is the node of the idle benchmark: 200 images of which a
// hundred containers use some.
func BenchmarkBusyNode(b *testing.B) {
	for _, flavor := range flavors {
		b.Run(string(flavor), func(b *testing.B) {
			n := startNode(b, flavor)
			var list []node.Image
			for i := range 200 {
				list = append(list, node.Image{Name: fmt.Sprintf("bench.test/i:%d", i), Layers: []node.Layer{
					{Seed: fmt.Sprintf("base%d", i%10), Bytes: 64 << 10}, {Seed: fmt.Sprintf("own%d", i), Bytes: 16 << 10}}})
			}
			ids, err := n.ImportAll(b.Context(), node.CRINamespace, list)
			must(b, "import", err)
			for i := range 100 {
				_, err := n.Create(b.Context(), node.RunSpec{ID: fmt.Sprint("c", i), Image: list[i].Name})
				must(b, "create", err)
			}
			r := connect(b, n)
			bench := func(name string, call func() error) {
				b.Run(name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						must(b, name, call())
					}
				})
			}
			bench("ConnectAndFirstInventory", func() error {
				cold, err := containerd.Connect(b.Context(), n.Socket(), slog.New(slog.DiscardHandler))
				if err != nil {
					return err
				}
				_, err = cold.Inventory(b.Context())
				return errors.Join(err, cold.Close())
			})
			bench("Inventory", func() error { _, err := r.Inventory(b.Context()); return err })
			bench("CheckUnused", func() error { _, err := r.Check(b.Context(), ids[150]); return err })
			bench("CheckUsed", func() error { _, err := r.Check(b.Context(), ids[50]); return err })
			free, used := find(b, r, ids[150]).Layers[0], find(b, r, ids[50]).Layers[0]
			bench("ResolveByView", func() error { _, err := r.ResolveLayer(b.Context(), free); return err })
			bench("ResolveByContainer", func() error { _, err := r.ResolveLayer(b.Context(), used); return err })
		})
	}
}
