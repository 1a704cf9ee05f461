package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

const mib = 1 << 20

// onBoth runs a test on a node of each flavor.
func onBoth(t *testing.T, test func(*testing.T, *node.Node)) {
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		t.Run(string(flavor), func(t *testing.T) {
			test(t, nodetest.Start(t, node.Config{Containerd: flavor, SizeBytes: 512 * mib}))
		})
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A containerd that was killed while it made a snapshot fails the next one.
func TestSnapshotAfterACrash(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node.Node) {
		leaveBehind := func() {
			t.Helper()
			dir := filepath.Join(n.Root(), "io.containerd.snapshotter.v1.overlayfs", "snapshots")
			last := 0
			for _, e := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
				if number, err := strconv.Atoi(e.Name()); err == nil {
					last = max(last, number)
				}
			}
			check(t, os.MkdirAll(filepath.Join(dir, strconv.Itoa(last+1), "fs"), 0o755))
		}
		leaveBehind()
		must[string](t)(n.Import(t.Context(), node.CRINamespace, node.Image{Name: "node.test/app:1"}))
		leaveBehind()
		c := must[*node.Container](t)(n.Run(t.Context(), node.RunSpec{ID: "c1", Image: "node.test/app:1", Args: []string{"true"}}))
		must[int](t)(c.Wait(t.Context()))
	})
}

// An image that goes before CRI has heard of it is not waited for.
func TestImportOfWhatGoes(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node.Node) {
		ctx := namespaces.WithNamespace(t.Context(), node.CRINamespace)
		const name = "node.test/app:1"
		ended := make(chan error)
		go func() {
			var err error
			for err == nil { // until an image went while it was imported
				_, err = n.Import(t.Context(), node.CRINamespace, node.Image{Name: name})
			}
			ended <- err
		}()
		for {
			select {
			case err := <-ended:
				if !errdefs.IsNotFound(err) {
					t.Fatal(err)
				}
				return
			default:
			}
			if err := n.Client().ImageService().Delete(ctx, name); err != nil && !errdefs.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
}

func TestContainersReallyRun(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node.Node) {
		ctx := t.Context()
		must[string](t)(n.Import(ctx, "builder", node.Image{
			Name: "node.test/app:1", Layers: []node.Layer{{Seed: "x", Bytes: 1000, Files: 4}},
		}))
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, "in"), []byte("from outside"), 0o644))
		c := must[*node.Container](t)(n.Run(ctx, node.RunSpec{
			Namespace: "builder", ID: "c1", Image: "node.test/app:1",
			Mounts: []node.Mount{{Source: dir, Target: "/rw"}, {Source: dir, Target: "/ro", ReadOnly: true}},
			Args: []string{"sh", "-c", `cat /ro/in; echo; ls /data/x | wc -l
				echo written > /rw/out; touch /ro/no 2>/dev/null || echo read-only
				grep -c '^[^:]*:[^:]*:.*/builder/c1$' /proc/self/cgroup | grep -qv '^0$' && echo in its cgroup
				exit 7`},
		}))
		if code := must[int](t)(c.Wait(ctx)); code != 7 {
			t.Errorf("exit code %d, want 7", code)
		}
		want := "from outside\n4\nread-only\nin its cgroup\n"
		if out := must[string](t)(c.Output()); out != want {
			t.Errorf("output %q, want %q", out, want)
		}
		if out := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "out"))); string(out) != "written\n" {
			t.Errorf("file written through the mount: %q", out)
		}
		check(t, c.Delete(ctx))
		check(t, c.Delete(ctx)) // gone already: no error
	})
}

func TestContainerKillAndDelete(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node.Node) {
		ctx := t.Context()
		must[string](t)(n.Import(ctx, node.CRINamespace, node.Image{Name: "node.test/app:1"}))
		c := must[*node.Container](t)(n.Run(ctx, node.RunSpec{ID: "sleeper", Image: "node.test/app:1"}))
		// The image's command sleeps: it is on an overlay of the node's filesystem.
		root := must[[]byte](t)(os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", c.PID())))
		if !strings.Contains(string(root), "upperdir="+n.Root()) {
			t.Errorf("root of the container is not on the node's filesystem:\n%s", root)
		}
		check(t, c.Kill(ctx))
		check(t, c.Kill(ctx)) // ended already: no error
		if code := must[int](t)(c.Wait(ctx)); code != 137 {
			t.Errorf("exit code %d after SIGKILL, want 137", code)
		}
		check(t, c.Delete(ctx))
		running := must[*node.Container](t)(n.Run(ctx, node.RunSpec{ID: "sleeper", Image: "node.test/app:1"}))
		check(t, running.Delete(ctx))
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/root", running.PID())); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the process of a deleted container: %v, want it gone", err)
		}
	})
}

func TestRunFailures(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node.Node) {
		ctx := t.Context()
		must[string](t)(n.Import(ctx, node.CRINamespace, node.Image{Name: "node.test/app:1"}))
		if _, err := n.Run(ctx, node.RunSpec{ID: "a", Image: "node.test/none:1"}); err == nil {
			t.Error("a container of an image that is not there runs")
		}
		if _, err := n.Run(ctx, node.RunSpec{ID: "b", Image: "node.test/app:1", Args: []string{"/no/such/program"}}); err == nil {
			t.Error("a program that is not there runs")
		}
		left := must[[]string](t)(containerIDs(ctx, n, node.CRINamespace))
		if len(left) > 0 {
			t.Errorf("containers left by failed runs: %v", left)
		}
		// The pod whose container does not start goes, too.
		_, err := n.RunPod(ctx, node.PodSpec{Name: "p", Containers: []node.PodContainer{
			{Name: "c", Image: "node.test/app:1", Command: []string{"/no/such/program"}},
		}})
		if err == nil {
			t.Error("a pod with a program that is not there runs")
		}
		if left := must[[]string](t)(containerIDs(ctx, n, node.CRINamespace)); len(left) > 0 {
			t.Errorf("containers left by a failed pod: %v", left)
		}
	})
}

func containerIDs(ctx context.Context, n *node.Node, namespace string) ([]string, error) {
	list, err := n.Client().Containers(namespaces.WithNamespace(ctx, namespace))
	var ids []string
	for _, c := range list {
		ids = append(ids, c.ID())
	}
	return ids, err
}

func TestImagesShareLayers(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node.Node) {
		ctx := namespaces.WithNamespace(t.Context(), "builder")
		base := node.Layer{Seed: "base", Bytes: 8 * mib}
		ids := must[[]string](t)(n.ImportAll(ctx, "builder", []node.Image{
			{Name: "node.test/a:1", Tags: []string{"node.test/a:latest"}, Layers: []node.Layer{base, {Seed: "a", Bytes: mib}}},
			{Name: "node.test/b:1", Layers: []node.Layer{base, {Seed: "b", Bytes: mib}}},
		}))
		again := must[string](t)(n.Import(ctx, "builder", node.Image{
			Name: "node.test/a:again", Layers: []node.Layer{base, {Seed: "a", Bytes: mib}},
		}))
		if ids[0] == ids[1] || ids[0] != again {
			t.Errorf("IDs %v, and %s of the first once more", ids, again)
		}
		var snapshotBytes int64
		count := 0
		service := n.Client().SnapshotService("overlayfs")
		check(t, service.Walk(ctx, func(ctx context.Context, info snapshots.Info) error {
			usage, err := service.Usage(ctx, info.Name)
			count++
			snapshotBytes += usage.Size
			return err
		}))
		if count != 4 { // busybox, base, a, b
			t.Errorf("%d snapshots, want 4", count)
		}
		if snapshotBytes < 10*mib || snapshotBytes > 15*mib {
			t.Errorf("snapshots take %d bytes, want 10 MiB and a busybox", snapshotBytes)
		}
		blobs := 0
		check(t, n.Client().ContentStore().Walk(ctx, func(info content.Info) error {
			if info.Size >= mib {
				blobs++
			}
			return nil
		}))
		if blobs != 4 {
			t.Errorf("%d layer blobs, want 4", blobs)
		}
	})
}

func TestCRISeesImages(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node.Node) {
		ctx := t.Context()
		id := must[string](t)(n.Import(ctx, node.CRINamespace, node.Image{
			Name: "node.test/app:1", Tags: []string{"node.test/app:latest"},
		}))
		_, images := n.CRI()
		list := must[*runtimeapi.ListImagesResponse](t)(images.ListImages(ctx, &runtimeapi.ListImagesRequest{}))
		found := make(map[string]*runtimeapi.Image)
		for _, image := range list.Images {
			for _, tag := range image.RepoTags {
				found[tag] = image
			}
		}
		for _, name := range []string{"node.test/app:1", "node.test/app:latest"} {
			if found[name].GetId() != id {
				t.Errorf("CRI has %s as %q, want %q", name, found[name].GetId(), id)
			}
		}
		if found[node.SandboxImage] == nil {
			t.Errorf("CRI does not know the sandbox image: %v", list.Images)
		}
		// Another namespace's images are not CRI's.
		other := must[string](t)(n.Import(ctx, "builder", node.Image{Name: "node.test/app:2", Cmd: []string{"true"}}))
		status := must[*runtimeapi.ImageStatusResponse](t)(images.ImageStatus(ctx,
			&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: other}}))
		if status.Image != nil {
			t.Errorf("CRI sees an image of another namespace: %v", status.Image)
		}
	})
}

func TestRunPod(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node.Node) {
		ctx := t.Context()
		id := must[string](t)(n.Import(ctx, node.CRINamespace, node.Image{Name: "node.test/app:1"}))
		pod := must[*node.Pod](t)(n.RunPod(ctx, node.PodSpec{Name: "web", Containers: []node.PodContainer{
			{Name: "sleeps", Image: "node.test/app:1"},
			{Name: "ends", Image: id, Command: []string{"sh", "-c", "exit 5"}},
		}}))
		awaitState(t, pod, "ends", runtimeapi.ContainerState_CONTAINER_EXITED)
		if code := must[*runtimeapi.ContainerStatus](t)(pod.Status(ctx, "ends")).ExitCode; code != 5 {
			t.Errorf("exit code %d, want 5", code)
		}
		status := must[*runtimeapi.ContainerStatus](t)(pod.Status(ctx, "sleeps"))
		if status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Errorf("state %v, want running", status.State)
		}
		if got := status.Labels["io.kubernetes.pod.name"]; got != "web" {
			t.Errorf("pod name label %q, want web", got)
		}
		check(t, pod.Stop(ctx))
		awaitState(t, pod, "sleeps", runtimeapi.ContainerState_CONTAINER_EXITED)
		check(t, pod.Remove(ctx))
		check(t, pod.Remove(ctx)) // gone already: no error
		if left := must[[]string](t)(containerIDs(ctx, n, node.CRINamespace)); len(left) > 0 {
			t.Errorf("containers left by a removed pod: %v", left)
		}
	})
}

func awaitState(t *testing.T, pod *node.Pod, container string, want runtimeapi.ContainerState) {
	t.Helper()
	await.Holds(t, 30*time.Second, fmt.Sprint("container ", container, " to be ", want), func(ctx context.Context) error {
		if is := must[*runtimeapi.ContainerStatus](t)(pod.Status(ctx, container)).State; is != want {
			return fmt.Errorf("it is %v", is)
		}
		return nil
	})
}

func TestContainersOutliveContainerd(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node.Node) {
		ctx := t.Context()
		must[string](t)(n.Import(ctx, node.CRINamespace, node.Image{Name: "node.test/app:1"}))
		spec := node.RunSpec{ID: "a", Image: "node.test/app:1"}
		c := must[*node.Container](t)(n.Run(ctx, spec))
		for name, end := range map[string]func() error{
			"killed":  n.Kill,
			"stopped": func() error { return n.Stop(ctx) },
		} {
			check(t, end())
			down, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			if _, err := n.Client().Version(down); err == nil {
				t.Errorf("containerd answers after it was %s", name)
			}
			cancel()
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", c.PID())); err != nil {
				t.Fatalf("container ended with a containerd that was %s: %v", name, err)
			}
			check(t, n.Restart(ctx))
		}
		check(t, c.Kill(ctx))
		check(t, c.Delete(ctx))
		check(t, must[*node.Container](t)(n.Run(ctx, spec)).Delete(ctx))
	})
}

// TestNodesDoNotMeet runs containers of the same names on two nodes at once.
func TestNodesDoNotMeet(t *testing.T) {
	ctx := t.Context()
	var nodes []*node.Node
	var running []*node.Container
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		n := nodetest.Start(t, node.Config{Containerd: flavor, SizeBytes: 256 * mib})
		must[string](t)(n.Import(ctx, node.CRINamespace, node.Image{Name: "node.test/app:1"}))
		running = append(running, must[*node.Container](t)(n.Run(ctx, node.RunSpec{ID: "same", Image: "node.test/app:1"})))
		must[*node.Pod](t)(n.RunPod(ctx, node.PodSpec{Name: "same", Containers: []node.PodContainer{
			{Name: "same", Image: "node.test/app:1"},
		}}))
		nodes = append(nodes, n)
	}
	check(t, nodes[0].Close())
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", running[1].PID())); err != nil {
		t.Errorf("closing one node ended a container of the other: %v", err)
	}
	check(t, running[1].Kill(ctx))
}

func TestFilesystems(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fs, func(t *testing.T) {
			n := nodetest.Start(t, node.Config{FS: fs, SizeBytes: 400 * mib})
			mounts := must[[]*mountinfo.Info](t)(mountinfo.GetMounts(mountinfo.SingleEntryFilter(n.Mount())))
			if len(mounts) != 1 || mounts[0].FSType != fs {
				t.Fatalf("mounts at %s: %v, want one %s", n.Mount(), mounts, fs)
			}
			must[string](t)(n.Import(t.Context(), node.CRINamespace, node.Image{Name: "node.test/app:1"}))
			c := must[*node.Container](t)(n.Run(t.Context(), node.RunSpec{ID: "a", Image: "node.test/app:1", Args: []string{"true"}}))
			if code := must[int](t)(c.Wait(t.Context())); code != 0 {
				t.Errorf("exit code %d", code)
			}
			testFill(t, n)
		})
	}
}

func testFill(t *testing.T, n *node.Node) {
	before := must[node.Usage](t)(n.Usage())
	check(t, n.Fill("some", 20*mib))
	after := must[node.Usage](t)(n.Usage())
	grown := int64(before.AvailableBytes) - int64(after.AvailableBytes)
	// Give or take some metadata of the filesystem's own.
	if grown < 19*mib || grown > 25*mib {
		t.Errorf("20 MiB written took %d bytes", grown)
	}
	check(t, n.FillTo("more", 80))
	full := must[node.Usage](t)(n.Usage())
	// xfs gives a few blocks back that it had set aside for the writing.
	const least = 79.9
	if full.UsedPercent < least || full.UsedPercent > 82 {
		t.Errorf("filled to 80 %%: %.2f %%", full.UsedPercent)
	}
	check(t, n.FillTo("more", 50)) // fuller already: nothing to do
	if got := must[node.Usage](t)(n.Usage()); got.UsedPercent < least {
		t.Errorf("filling to less has emptied: %.2f %%", got.UsedPercent)
	}
	check(t, n.FillTo("all", 100))
	if got := must[node.Usage](t)(n.Usage()); got.UsedPercent < 97 {
		t.Errorf("filled to 100 %%: %.2f %%", got.UsedPercent)
	}
	for _, name := range []string{"some", "more", "all", "all"} {
		check(t, n.Unfill(name))
	}
	for _, bad := range []string{"", "a/b", ".", ".."} {
		if n.Fill(bad, 1) == nil || n.Unfill(bad) == nil {
			t.Errorf("file name %q accepted", bad)
		}
	}
}
