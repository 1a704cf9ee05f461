package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/image-spec/identity"

	"github.com/ebb-agent/ebb/tools/node"
)

const layerBytes = 5 * mib

// plains makes n images named prefix0, prefix1, …
func plains(name string, n int) []node.Image {
	var images []node.Image
	for i := range n {
		images = append(images, plain(fmt.Sprint(name, i), layerBytes))
	}
	return images
}

func TestReclaim(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		b := newFixture(t, flavor, append(plains("a", 6),
			sharing("twin0", "twins", layerBytes), sharing("twin1", "twins", layerBytes))...)
		b.start()
		b.use("a3", "twin0", "a1", "twin1", "a5", "a0", "a4", "a2")
		b.awaitOrder()
		mark := b.journal.mark()
		b.cross()
		end := b.journal.await(t, mark, "reclaim run ended")
		b.checkLow(end, b.notLow)
		b.checkRun(mark)
		b.awaitAtLeast(fmt.Sprintf(`ebb_node_reclaim_runs_total{result=%q}`, end.Text("result")), 1)
		if got, want := b.metric(`ebb_node_images_removed_total{reason="threshold"}`), len(b.removals(mark)); got != float64(want) {
			t.Errorf("%g removals were counted, %d logged", got, want)
		}
		// A look for another reason can have come first; the kernel reports it all the same.
		b.awaitAtLeast(`ebb_node_filesystem_threshold_crossings_total{filesystem="images"}`, 1)
		for _, line := range b.journal.since(mark, "first removal done") {
			if line.Number("since_crossing_ms") <= 0 {
				t.Errorf("no reaction time: %v", line.Fields)
			}
		}
	})
}

// TestNeverRemoved gives every image but two a reason to stay, and a disk that
// asks for more than those two.
func TestNeverRemoved(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		two := plain("two-names", layerBytes)
		two.Tags = []string{prefix + "precious:1"}
		b := newFixture(t, flavor, append(plains("a", 2), two, plain("running", layerBytes), plain("stopped", layerBytes),
			plain("pod", layerBytes), plain("elsewhere", layerBytes), plain("snapshot", layerBytes))...)
		b.config.Images.Keep = []string{prefix + "precious"}
		b.occupy()
		b.start()
		b.use("a1", "a0")
		b.awaitOrder()
		mark := b.journal.mark()
		b.cross()
		b.journal.await(t, mark, "the low threshold cannot be reached; holding")
		b.journal.await(t, mark, "reclaim run ended")
		if got := b.removedNames(mark); !slices.Equal(got, []string{"a1", "a0"}) {
			t.Errorf("FINAL: removed %v", got)
		}
		b.mustStay("two-names", "running", "stopped", "pod", "elsewhere", "snapshot")
		for name, reason := range map[string]string{
			"two-names": "keep_rule", "running": "in_use", "stopped": "in_use", "pod": "in_use", "elsewhere": "in_use", "snapshot": "in_use",
		} {
			b.awaitReason(name, reason)
		}
		want := map[node.Flavor]string{node.Debian: "sandbox", node.V2: "pinned"}[flavor]
		b.awaitSandbox(want)
	})
}

// occupy uses images in every way that counts.
func (b *fixture) occupy() {
	b.Helper()
	b.sleepIn("running")
	stopped := b.sleepIn("stopped", "true")
	_, err := stopped.Wait(b.ctx)
	b.must(err)
	pod, err := b.node.RunPod(b.ctx, node.PodSpec{Name: "p", Containers: []node.PodContainer{{Name: "c", Image: ref("pod")}}})
	b.must(err)
	b.must(pod.Stop(b.ctx)) // dead, but not removed: only the CRI's records hold the image

	const other = "builder"
	_, err = b.node.Import(b.ctx, other, b.scenario.images["elsewhere"])
	b.must(err)
	_, err = b.node.Create(b.ctx, node.RunSpec{Namespace: other, ID: "step", Image: ref("elsewhere")})
	b.must(err)
	b.must(b.bareSnapshot("snapshot"))
}

// bareSnapshot makes what a build step in progress is: a writable layer on an
// image, and no container.
func (b *fixture) bareSnapshot(name string) error {
	ctx := namespaces.WithNamespace(b.ctx, node.CRINamespace)
	image, err := b.node.Client().GetImage(ctx, ref(name))
	if err != nil {
		return err
	}
	layers, err := image.RootFS(ctx)
	if err != nil {
		return err
	}
	_, err = b.node.Client().SnapshotService("overlayfs").Prepare(ctx, "step", identity.ChainID(layers).String(),
		snapshots.WithLabels(map[string]string{"containerd.io/gc.root": "now"}))
	return err
}

// awaitSandbox waits until the agent keeps the sandbox image for that reason.
func (b *fixture) awaitSandbox(reason string) {
	b.Helper()
	b.eventually("the sandbox image", func() error {
		e, err := b.images()
		if err != nil {
			return err
		}
		for _, i := range e.Images {
			if slices.Contains(i.References, node.SandboxImage) {
				if i.Reason == reason || i.Reason == "in_use" {
					return nil
				}
				return fmt.Errorf("the reason is %s", i.Reason)
			}
		}
		return fmt.Errorf("it is not there")
	})
}

// TestObserve: mode observe logs what mode enforce would do, and does nothing.
func TestObserve(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 6)...)
	b.config.Mode = "observe"
	b.start()
	b.use("a3", "a1", "a5", "a0", "a4", "a2")
	b.awaitOrder()
	before := b.onNode()
	mark := b.journal.mark()
	b.cross()
	b.journal.await(t, mark, "image would be removed")
	b.awaitAtLeast(`ebb_node_reclaim_runs_total{result="observed"}`, 1)
	var logged []string
	for _, l := range b.journal.since(mark, "image would be removed") {
		logged = append(logged, b.scenario.name(l.Text("image")))
	}
	if after := b.onNode(); len(after) != len(before) {
		t.Errorf("FINAL: %d images were on the node of an observing agent, now %d", len(before), len(after))
	}

	b.stop()
	b.config.Mode = "enforce"
	mark = b.journal.mark()
	b.start()
	b.journal.await(t, mark, "reclaim run ended")
	b.checkRun(mark)
	if got := b.removedNames(mark); !slices.Equal(got, logged) {
		t.Errorf("observe logged %v, enforce removed %v", logged, got)
	}
}
