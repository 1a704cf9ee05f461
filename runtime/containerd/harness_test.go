package containerd_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

const snapshotter = "overlayfs"

// flavors are the containerds that ebb supports.
var flavors = []node.Flavor{node.Debian, node.V2}

func startNode(t testing.TB, flavor node.Flavor) *node.Node {
	t.Helper()
	return nodetest.Start(t, node.Config{Containerd: flavor, SizeBytes: 512 << 20})
}

func connect(t testing.TB, n *node.Node) *containerd.Runtime {
	t.Helper()
	r, err := containerd.Connect(t.Context(), n.Socket(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

func TestConformance(t *testing.T) {
	for _, flavor := range flavors {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel() // with the other containerd
			conform(t, func(t *testing.T) Harness {
				n := startNode(t, flavor)
				return Harness{Runtime: connect(t, n), Node: &realNode{n, map[string]*node.Container{}, map[string]*node.Pod{}}}
			})
		})
	}
}

// realNode plays the other users of a real node.
type realNode struct {
	*node.Node
	containers map[string]*node.Container
	pods       map[string]*node.Pod // by the ID of sandbox and container
}

func (h *realNode) in(t *testing.T, namespace string) context.Context {
	return namespaces.WithNamespace(context.WithoutCancel(t.Context()), namespace)
}

func must(t testing.TB, operation string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", operation, err)
	}
}

func (h *realNode) Import(t *testing.T, namespace string, img Image) string {
	t.Helper()
	spec := node.Image{Name: img.Name, NoBusybox: !img.Runnable}
	for _, l := range img.Layers {
		spec.Layers = append(spec.Layers, node.Layer{Seed: l.Seed, Bytes: l.Bytes})
	}
	if img.Variant != "" {
		spec.Labels = map[string]string{"variant": img.Variant}
	}
	id, err := h.Node.Import(h.in(t, namespace), namespace, spec)
	must(t, "import", err)
	for _, tag := range img.Tags {
		h.Tag(t, namespace, img.Name, tag)
	}
	return id
}

func (h *realNode) Tag(t *testing.T, namespace, from, to string) {
	t.Helper()
	ctx, store := h.in(t, namespace), h.Client().ImageService()
	img, err := store.Get(ctx, from)
	must(t, "tag", err)
	img = images.Image{Name: to, Target: img.Target, Labels: img.Labels} // as ctr has it
	_, err = store.Create(ctx, img)
	if errdefs.IsAlreadyExists(err) {
		_, err = store.Update(ctx, img)
	}
	must(t, "tag", err)
	if namespace == node.CRINamespace {
		h.awaitKnown(t, to)
	}
}

// awaitKnown waits until the CRI knows a name: while it takes a new name up, it makes it anew
// should it have gone. One that it would spell otherwise it never knows.
func (h *realNode) awaitKnown(t *testing.T, name string) {
	t.Helper()
	if ref, err := reference.ParseDockerRef(name); err != nil || ref.String() != name {
		return
	}
	_, service := h.CRI()
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		r, err := service.ImageStatus(t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err != nil || r.Image != nil && slices.Contains(r.Image.RepoTags, name) {
			return
		}
	}
}

func (h *realNode) Label(t *testing.T, namespace, name string, labels map[string]string) {
	t.Helper()
	var fields []string
	for key := range labels {
		fields = append(fields, "labels."+key)
	}
	_, err := h.Client().ImageService().Update(h.in(t, namespace), images.Image{Name: name, Labels: labels}, fields...)
	must(t, "label", err)
}

func (h *realNode) Pin(t *testing.T, name string) {
	t.Helper()
	h.Label(t, node.CRINamespace, name, map[string]string{"io.cri-containerd.pinned": "pinned"})
}

func (h *realNode) Create(t *testing.T, namespace, id, image string) {
	t.Helper()
	c, err := h.Node.Create(h.in(t, namespace), node.RunSpec{Namespace: namespace, ID: id, Image: image, Args: []string{"true"}})
	must(t, "create", err)
	h.containers[namespace+"/"+id] = c
}

func (h *realNode) Run(t *testing.T, namespace, id, image string) {
	t.Helper()
	c, err := h.Node.Run(h.in(t, namespace), node.RunSpec{Namespace: namespace, ID: id, Image: image})
	must(t, "run", err)
	h.containers[namespace+"/"+id] = c
}

func (h *realNode) Stop(t *testing.T, namespace, id string) {
	t.Helper()
	must(t, "stop", h.containers[namespace+"/"+id].Kill(h.in(t, namespace)))
}

func (h *realNode) Delete(t *testing.T, namespace, id string) {
	t.Helper()
	must(t, "delete", h.containers[namespace+"/"+id].Delete(h.in(t, namespace)))
	delete(h.containers, namespace+"/"+id)
}

// Snapshot is a root of its own, so that containerd does not collect it.
func (h *realNode) Snapshot(t *testing.T, namespace, key, image string, view bool) {
	t.Helper()
	ctx := h.in(t, namespace)
	make := h.Client().SnapshotService(snapshotter).Prepare
	if view {
		make = h.Client().SnapshotService(snapshotter).View
	}
	_, err := make(ctx, key, h.chain(t, namespace, image),
		snapshots.WithLabels(map[string]string{"containerd.io/gc.root": "true"}))
	must(t, "snapshot", err)
}

func (h *realNode) chain(t *testing.T, namespace, name string) string {
	t.Helper()
	img, err := h.Client().GetImage(h.in(t, namespace), name)
	must(t, "get image", err)
	config, err := img.Config(h.in(t, namespace))
	must(t, "get image config", err)
	info, err := h.Client().ContentStore().Info(h.in(t, namespace), config.Digest)
	must(t, "get image config", err)
	return info.Labels["containerd.io/gc.ref.snapshot."+snapshotter]
}

func (h *realNode) RemoveSnapshot(t *testing.T, namespace, key string) {
	t.Helper()
	must(t, "remove snapshot", h.Client().SnapshotService(snapshotter).Remove(h.in(t, namespace), key))
}

func (h *realNode) Lease(t *testing.T, namespace, id, image string) {
	t.Helper()
	ctx, manager := h.in(t, namespace), h.Client().LeasesService()
	img, err := h.Client().ImageService().Get(ctx, image)
	must(t, "lease", err)
	l, err := manager.Create(ctx, leases.WithID(id))
	must(t, "lease", err)
	must(t, "lease", manager.AddResource(ctx, l, leases.Resource{ID: img.Target.Digest.String(), Type: "content"}))
}

func (h *realNode) Release(t *testing.T, namespace, id string) {
	t.Helper()
	must(t, "release", h.Client().LeasesService().Delete(h.in(t, namespace), leases.Lease{ID: id}, leases.SynchronousDelete))
}

func (h *realNode) StoredBytes(t *testing.T) uint64 {
	t.Helper()
	var total int64
	for _, dir := range []string{
		"io.containerd.content.v1.content/blobs", "io.containerd.snapshotter.v1." + snapshotter + "/snapshots",
	} {
		err := filepath.WalkDir(filepath.Join(h.Root(), dir), func(_ string, d fs.DirEntry, err error) error {
			var info fs.FileInfo
			if err == nil {
				info, err = d.Info()
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // containerd's collector has taken it meanwhile
			}
			if err != nil {
				return err
			}
			total += info.Sys().(*syscall.Stat_t).Blocks * 512
			return nil
		})
		must(t, "measure "+dir, err)
	}
	return uint64(total)
}

func (h *realNode) Leftovers(t *testing.T) []string {
	t.Helper()
	names, err := h.Client().NamespaceService().List(t.Context())
	must(t, "list namespaces", err)
	var left []string
	for _, ns := range names {
		err := h.Client().SnapshotService(snapshotter).Walk(h.in(t, ns), func(_ context.Context, i snapshots.Info) error {
			if strings.HasPrefix(i.Name, "ebb-") {
				left = append(left, ns+"/"+i.Name)
			}
			return nil
		})
		must(t, "list snapshots", err)
	}
	return left
}

// SandboxImage is there from the start: the node's containerd was given it.
func (h *realNode) SandboxImage(t *testing.T) string {
	t.Helper()
	ctx := h.in(t, node.CRINamespace)
	img, err := h.Client().GetImage(ctx, node.SandboxImage)
	must(t, "get sandbox image", err)
	config, err := img.Config(ctx)
	must(t, "get sandbox image", err)
	return config.Digest.String()
}

// FillDisk writes as root, so that the blocks reserved for root are used up,
// too. ext4 keeps yet some thousand blocks for its own metadata, and a view is
// nothing but metadata: directories, of a block each, use those up.
func (h *realNode) FillDisk(t *testing.T) func() {
	t.Helper()
	if err := h.Fill("full", 1<<40); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill: %v", err)
	}
	dirs := filepath.Join(h.Mount(), "full-of-directories")
	err := os.Mkdir(dirs, 0o700)
	for i := 0; err == nil; i++ {
		err = os.Mkdir(filepath.Join(dirs, strconv.Itoa(i)), 0o700)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill: %v", err)
	}
	return func() {
		must(t, "unfill", os.RemoveAll(dirs))
		must(t, "unfill", h.Unfill("full"))
	}
}

func (h *realNode) Interrupt(t *testing.T) {
	t.Helper()
	must(t, "kill", h.Kill())
	must(t, "restart", h.Restart(context.WithoutCancel(t.Context())))
}

// LowerDir reads the root mount in the container's own mountinfo.
func (h *realNode) LowerDir(t *testing.T, namespace, id string) string {
	t.Helper()
	pid := h.containers[namespace+"/"+id].PID()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	must(t, "read mountinfo", err)
	lines := bufio.NewScanner(bytes.NewReader(table))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 5 || f[4] != "/" {
			continue
		}
		for _, option := range strings.Split(f[len(f)-1], ",") {
			if list, ok := strings.CutPrefix(option, "lowerdir="); ok {
				first, _, _ := strings.Cut(list, ":")
				return first
			}
		}
	}
	t.Fatalf("no overlay root in\n%s", table)
	return ""
}

func (h *realNode) RunPod(t *testing.T, p Pod) (sandboxID, containerID string) {
	t.Helper()
	spec := node.PodSpec{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Attempt: p.Attempt, Annotations: map[string]string{"kubernetes.io/config.source": "api"},
		Containers: []node.PodContainer{{Name: "app", Image: p.Image, Command: []string{"sleep", "600"}, Attempt: p.Attempt}},
	}
	if p.Static {
		spec.Annotations["kubernetes.io/config.source"] = "file"
	}
	if p.WithoutIdentity {
		spec.Labels = map[string]string{"io.kubernetes.pod.uid": "../" + p.UID}
	}
	run, err := h.Node.RunPod(h.in(t, node.CRINamespace), spec)
	must(t, "run pod", err)
	h.pods[run.ID], h.pods[run.Containers["app"]] = run, run
	return run.ID, run.Containers["app"]
}

func (h *realNode) EndContainer(t *testing.T, id string) {
	t.Helper()
	ctx := h.in(t, node.CRINamespace)
	c, err := h.Client().LoadContainer(ctx, id)
	must(t, "load container", err)
	task, err := c.Task(ctx, nil)
	must(t, "load task", err)
	must(t, "kill", task.Kill(ctx, syscall.SIGKILL))
}

func (h *realNode) EndSandbox(t *testing.T, id string) {
	t.Helper()
	must(t, "stop pod", h.pods[id].Stop(h.in(t, node.CRINamespace)))
}
