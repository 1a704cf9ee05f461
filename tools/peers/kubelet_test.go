package peers_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

const image = "peers.test/app:1"

func nodeWithImage(t *testing.T, flavor node.Flavor) *node.Node {
	t.Helper()
	peerstest.Need(t)
	n := nodetest.Start(t, node.Config{Containerd: flavor, SizeBytes: 512 << 20})
	if _, err := n.Import(t.Context(), node.CRINamespace, node.Image{Name: image}); err != nil {
		t.Fatal(err)
	}
	return n
}

func waitPod(t *testing.T, k *peers.Kubelet, name string, want func(peers.PodStatus, bool) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := k.WaitPod(ctx, "default", name, want); err != nil {
		t.Fatal(err)
	}
}

// running counts the containers that containerd has running.
func running(t *testing.T, n *node.Node) int {
	t.Helper()
	cri, _ := n.CRI()
	list, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Containers)
}

// machine is what a kubelet would change of a machine that is its own.
func machine(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, path := range []string{
		"/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/panic", "/proc/sys/kernel/panic_on_oops",
		"/proc/sys/kernel/keys/root_maxkeys", "/proc/sys/kernel/keys/root_maxbytes",
	} {
		data, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %q %v\n", path, data, err)
	}
	for _, dir := range []string{"/var/lib/kubelet", "/var/log/containers", "/var/log/pods", "/etc/kubernetes", "/usr/libexec/kubernetes"} {
		entries, err := os.ReadDir(dir)
		fmt.Fprintf(&b, "%s %v %v\n", dir, entries, err)
	}
	return b.String()
}

func TestStandaloneKubelet(t *testing.T) {
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		t.Run(string(flavor), func(t *testing.T) {
			n := nodeWithImage(t, flavor)
			before := machine(t)
			k := peerstest.StartKubelet(t, peers.KubeletConfig{Node: n, Configuration: map[string]any{
				"imageGCHighThresholdPercent": 91, "evictionHard": map[string]any{"memory.available": "1Mi"},
			}})
			pod := "app-" + k.NodeName()
			if err := k.AddStaticPod("app", peers.PodSpec{Name: "app", Image: image}.Manifest()); err != nil {
				t.Fatal(err)
			}
			waitPod(t, k, pod, peers.IsRunning)
			testConfiguration(t, k)
			testPlaces(t, n, k)
			testDisk(t, n, k)
			k = testEnds(t, n, k, pod)

			if err := k.RemoveStaticPod("app"); err != nil {
				t.Fatal(err)
			}
			waitPod(t, k, pod, peers.IsGone)
			await.Holds(t, time.Minute, "an end of the pod's container", func(context.Context) error {
				if got := running(t, n); got != 0 {
					return fmt.Errorf("%d containers run", got)
				}
				return nil
			})
			if after := machine(t); after != before {
				t.Errorf("the kubelet has changed the machine from\n%sto\n%s", before, after)
			}
		})
	}
}

// testEnds ends the kubelet in each way, which its pod does not notice, and has
// another one take over what it left.
func testEnds(t *testing.T, n *node.Node, k *peers.Kubelet, pod string) *peers.Kubelet {
	t.Helper()
	stillOne := func(when string) {
		t.Helper()
		if got := running(t, n); got != 1 {
			t.Errorf("%d containers run %s, want 1", got, when)
		}
	}
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	stillOne("while the kubelet is down")
	if err := errors.Join(k.Start(t.Context()), k.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	waitPod(t, k, pod, peers.IsRunning)
	stillOne("after its restart")
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	next := peerstest.StartKubelet(t, peers.KubeletConfig{Node: n})
	waitPod(t, next, pod, peers.IsRunning)
	stillOne("under the next kubelet")
	return next
}

// testConfiguration asks the kubelet what it made of its configuration.
func testConfiguration(t *testing.T, k *peers.Kubelet) {
	var configz struct {
		KubeletConfig struct {
			High         int `json:"imageGCHighThresholdPercent"`
			Low          int `json:"imageGCLowThresholdPercent"`
			EvictionHard map[string]string
		}
	}
	if err := peers.Request(t.Context(), k.Admin(), http.MethodGet, k.URL()+"/configz", nil, &configz); err != nil {
		t.Fatal(err)
	}
	if c := configz.KubeletConfig; c.High != 91 || c.Low != 80 || c.EvictionHard["memory.available"] != "1Mi" {
		t.Errorf("configuration is %+v", c)
	}
}

// testPlaces looks for what belongs on the node's disk and in its directory.
func testPlaces(t *testing.T, n *node.Node, k *peers.Kubelet) {
	if !strings.HasPrefix(k.RootDir(), n.Mount()+"/") || !strings.HasPrefix(k.PodLogsDir(), n.Mount()+"/") {
		t.Errorf("root %s, logs %s: not on the node's disk", k.RootDir(), k.PodLogsDir())
	}
	for _, pattern := range []string{
		filepath.Join(k.RootDir(), "pods", "*"),
		filepath.Join(k.PodLogsDir(), "default_app-*", "main", "0.log"),
		filepath.Join(k.ContainerLogsDir(), "app-*.log"),
	} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v; want one", pattern, found, err)
		}
	}
	if u, err := k.Usage(); err != nil || u.RSSBytes < 10<<20 {
		t.Errorf("usage %+v, %v", u, err)
	}
}

// testDisk asks the kubelet about the disk that its garbage collection and
// eviction go by: it has to be the node's.
func testDisk(t *testing.T, n *node.Node, k *peers.Kubelet) {
	var st unix.Statfs_t
	if err := unix.Statfs(n.Mount(), &st); err != nil {
		t.Fatal(err)
	}
	want := st.Blocks * uint64(st.Bsize)
	await.Holds(t, time.Minute, "the kubelet's view of the node's disk", func(ctx context.Context) error {
		type filesystem struct{ CapacityBytes uint64 }
		var summary struct {
			Node struct {
				FS      filesystem
				Runtime struct{ ImageFS filesystem }
			}
		}
		err := peers.Request(ctx, k.Admin(), http.MethodGet, k.URL()+"/stats/summary", nil, &summary)
		if err == nil && (summary.Node.FS.CapacityBytes != want || summary.Node.Runtime.ImageFS.CapacityBytes != want) {
			err = fmt.Errorf("%+v, want %d", summary, want)
		}
		return err
	})
}

// TestKubeletAccess asks a standalone kubelet as users good and bad.
func TestKubeletAccess(t *testing.T) {
	n, other := nodeWithImage(t, node.Debian), nodetest.Start(t, node.Config{})
	k := peerstest.StartKubelet(t, peers.KubeletConfig{Node: n, RootOffDisk: true})
	// Its mount namespace, made from ours, holds nobody else's disk.
	if err := other.Close(); err != nil {
		t.Errorf("close another node while the kubelet runs: %v", err)
	}
	if strings.HasPrefix(k.RootDir(), n.Mount()+"/") {
		t.Errorf("root directory %s is on the node's disk", k.RootDir())
	}
	stranger, err := peers.NewAuthority("stranger")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		of   *peers.Authority
		user peers.User
		want int
	}{
		{"user", k.Authority(), peers.User{Name: "jane"}, 200},
		{"expired", k.Authority(), peers.User{Name: "jane", NotAfter: time.Now().Add(-time.Hour)}, 401},
		{"of another authority", stranger, peers.User{Name: "jane"}, 401},
	} {
		creds, err := tc.of.Client(tc.user)
		if err != nil {
			t.Fatal(err)
		}
		creds.CA = k.Authority().PEM()
		client, err := creds.HTTPClient()
		if err != nil {
			t.Fatal(err)
		}
		err = peers.Request(t.Context(), client, http.MethodGet, k.URL()+"/pods", nil, nil)
		if tc.want == 200 && err != nil || tc.want != 200 && !peers.HasStatus(err, tc.want) {
			t.Errorf("%s: %v, want status %d", tc.name, err, tc.want)
		}
		client.CloseIdleConnections()
	}
	files, err := k.ClientFiles(peers.User{Name: "jane"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{files.CA, files.Cert, files.Key} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestRegisteredKubelet has a pod bound by name, and another by the scheduler,
// run on a node of a whole control plane.
func TestRegisteredKubelet(t *testing.T) {
	n := nodeWithImage(t, node.V2)
	cp := peerstest.StartControlPlane(t, peers.Config{ControllerManager: true, Scheduler: true})
	k := peerstest.StartKubelet(t, peers.KubeletConfig{Node: n, ControlPlane: cp, NodeName: "tide"})
	client := admin(t, cp)
	pods := cp.URL() + "/api/v1/namespaces/default/pods"
	await.Holds(t, time.Minute, "a service account", func(ctx context.Context) error {
		return peers.Request(ctx, client, http.MethodGet, cp.URL()+"/api/v1/namespaces/default/serviceaccounts/default", nil, nil)
	})
	for _, spec := range []peers.PodSpec{
		{Name: "bound", NodeName: "tide", Image: image},
		{Name: "scheduled", Image: image},
		{Name: "ending", Image: image, NodeName: "tide", Command: []string{"/bin/true"}, RestartPolicy: "Never"},
	} {
		if err := peers.Request(t.Context(), client, http.MethodPost, pods, spec.Manifest(), nil); err != nil {
			t.Fatal(err)
		}
	}
	waitPod(t, k, "bound", peers.IsRunning)
	waitPod(t, k, "scheduled", peers.IsRunning)
	waitPod(t, k, "ending", peers.HasEnded)
	testTokens(t, n)

	// The kubelet asks the API server who may ask it.
	jane, err := k.Client("jane")
	if err != nil {
		t.Fatal(err)
	}
	if err := peers.Request(t.Context(), jane, http.MethodGet, k.URL()+"/pods", nil, nil); !peers.HasStatus(err, http.StatusForbidden) {
		t.Errorf("a user without rights: %v, want status 403", err)
	}
	if err := peers.Request(t.Context(), client, http.MethodDelete, pods+"/bound", nil, nil); err != nil {
		t.Fatal(err)
	}
	waitPod(t, k, "bound", peers.IsGone)
}

// testTokens looks for the volumes of service accounts: what the kubelet mounts
// is seen by containerd, in the machine's own namespace.
func testTokens(t *testing.T, n *node.Node) {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(n.Mount()))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(mounts, func(m *mountinfo.Info) bool { return strings.Contains(m.Mountpoint, "~projected/") }) {
		t.Error("no volume with a token is mounted")
	}
	cri, _ := n.CRI()
	list, err := cri.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.name": "bound"},
	}})
	if err != nil || len(list.Containers) != 1 {
		t.Fatalf("containers of the pod: %v, %v", list, err)
	}
	answer, err := cri.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{
		ContainerId: list.Containers[0].Id,
		Cmd:         []string{"/bin/cat", "/var/run/secrets/kubernetes.io/serviceaccount/namespace"},
	})
	if err != nil || string(answer.Stdout) != "default" {
		t.Errorf("the pod reads %v, %v; want its namespace", answer, err)
	}
}
