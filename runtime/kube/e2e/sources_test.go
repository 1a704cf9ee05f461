package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	image    = "registry.example/app:1"
	nodeName = "tide"
	patience = 2 * time.Minute
)

// fixture is a cluster with a kubelet, and the two sources on them.
type fixture struct {
	*peerstest.Cluster
	kubelet *peers.Kubelet
}

// do asks the API server for something that must succeed.
func (b *fixture) do(t *testing.T, method, path string, in any) {
	t.Helper()
	await.Holds(t, patience, method+" "+path, func(ctx context.Context) error {
		err := b.Ask(ctx, method, path, in, nil)
		var status *peers.StatusError
		if errors.As(err, &status) && status.Code/100 == 4 {
			t.Fatal(err) // asking again would not help
		}
		return err
	})
}

func rule(resource string, verbs ...string) map[string]any {
	return map[string]any{"apiGroups": []string{""}, "resources": []string{resource}, "verbs": verbs}
}

// run runs a source until the test ends.
func run(t *testing.T, s kube.Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx, make(chan struct{}, 1)); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

func nodeWithImage(t *testing.T) *node.Node {
	t.Helper()
	peerstest.Need(t)
	n := nodetest.Start(t, node.Config{Containerd: node.V2, SizeBytes: 512 << 20})
	if _, err := n.Import(t.Context(), node.CRINamespace, node.Image{Name: image}); err != nil {
		t.Fatal(err)
	}
	return n
}

func kubeletSource(t *testing.T, k *peers.Kubelet, user string) *kube.Kubelet {
	t.Helper()
	files, err := k.ClientFiles(peers.User{Name: user})
	if err != nil {
		t.Fatal(err)
	}
	s, err := kube.NewKubelet(kube.KubeletOptions{URL: k.URL(), CAFile: files.CA, CertFile: files.Cert, KeyFile: files.Key})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	return s
}

func apiSource(t *testing.T, b *fixture, user string, groups ...string) *kube.APIServer {
	t.Helper()
	file, err := b.Kubeconfig(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := kube.NewAPIServer(kube.APIServerOptions{NodeName: nodeName, Kubeconfig: file, ListSpread: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	return s
}

// names waits until the source names exactly these pods.
func names(t *testing.T, s kube.Source, want ...string) []kube.Pod {
	t.Helper()
	var list []kube.Pod
	await.Holds(t, patience, strings.Join(want, " "), func(ctx context.Context) error {
		pods, err := s.Pods(ctx)
		if err != nil {
			return err
		}
		var got []string
		for _, p := range pods.List {
			got = append(got, p.Name)
		}
		list = pods.List
		if !slices.Equal(got, want) {
			return fmt.Errorf("got %v", got)
		}
		return nil
	})
	return list
}

func TestStandaloneKubelet(t *testing.T) {
	n := nodeWithImage(t)
	k := peerstest.StartKubelet(t, peers.KubeletConfig{Node: n})
	s := kubeletSource(t, k, "ebb")
	names(t, s) // null items, and yet all there are
	if err := k.AddStaticPod("app", peers.PodSpec{Name: "app", Image: image}.Manifest()); err != nil {
		t.Fatal(err)
	}
	pod := names(t, s, "app-"+k.NodeName())[0]
	if err := k.WaitPod(t.Context(), "default", pod.Name, peers.IsRunning); err != nil {
		t.Fatal(err)
	}
	checkLabels(t, n, pod)
	if gone, err := s.Pass().Gone(t.Context(), "default", pod.Name, pod.UID); gone || err != nil {
		t.Errorf("gone %v, %v", gone, err)
	}
	if err := k.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pods(t.Context()); !errors.Is(err, kube.ErrUnavailable) || !strings.Contains(err.Error(), "nothing listens") {
		t.Errorf("while it is down: %v", err)
	}
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	names(t, s, pod.Name)
	if err := k.RemoveStaticPod("app"); err != nil {
		t.Fatal(err)
	}
	names(t, s)
	if gone, err := s.Pass().Gone(t.Context(), "default", pod.Name, pod.UID); !gone || err != nil {
		t.Errorf("gone %v, %v", gone, err)
	}
}

// checkLabels compares a pod's UID with what its containers carry.
func checkLabels(t *testing.T, n *node.Node, pod kube.Pod) {
	t.Helper()
	runtime, _ := n.CRI()
	label := map[string]string{"io.kubernetes.pod.uid": pod.UID}
	containers, err := runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: label}})
	if err != nil {
		t.Fatal(err)
	}
	sandboxes, err := runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: label}})
	if err != nil {
		t.Fatal(err)
	}
	if len(containers.GetContainers()) != 1 || len(sandboxes.GetItems()) != 1 {
		t.Errorf("with the UID %s there are %v and %v", pod.UID, containers.GetContainers(), sandboxes.GetItems())
	}
}

func TestSources(t *testing.T) {
	n := nodeWithImage(t)
	b := &fixture{Cluster: peerstest.Start(t, peers.Config{})}
	b.kubelet = peerstest.StartKubelet(t, peers.KubeletConfig{Node: n, ControlPlane: b.ControlPlane, NodeName: nodeName,
		// A refusal is remembered for 30 seconds otherwise.
		Configuration: map[string]any{"authorization": map[string]any{"webhook": map[string]any{"cacheUnauthorizedTTL": "100ms"}}}})
	kubelet, api := kubeletSource(t, b.kubelet, "ebb"), apiSource(t, b, "ebb")

	testRights(t, b, kubelet, api)
	if err := b.kubelet.AddStaticPod("static", peers.PodSpec{Name: "static", Image: image}.Manifest()); err != nil {
		t.Fatal(err)
	}
	b.do(t, http.MethodPost, "/api/v1/namespaces/default/pods", peers.PodSpec{Name: "web", NodeName: nodeName, Image: image}.Manifest())
	job := peers.PodSpec{Name: "job", NodeName: nodeName, Image: image, Command: []string{"/bin/true"}, RestartPolicy: "Never"}
	b.do(t, http.MethodPost, "/api/v1/namespaces/default/pods", job.Manifest())
	all := []string{"job", "static-" + nodeName, "web"}
	names(t, kubelet, all...)
	names(t, api, all...)
	await.Holds(t, patience, "the same answer", func(ctx context.Context) error {
		a, errA := api.Pods(ctx)
		k, errK := kubelet.Pods(ctx)
		if err := errors.Join(errA, errK); err != nil {
			return err
		}
		if a.StaticKnown || !k.StaticKnown || !a.List[0].Ended {
			return fmt.Errorf("%+v, %+v", a, k)
		}
		if diff := cmp.Diff(a.List, k.List); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	pods, err := api.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkLabels(t, n, pods.List[1])
	for _, s := range []kube.Source{kubelet, api} {
		for _, p := range pods.List {
			if gone, err := s.Pass().Gone(t.Context(), p.Namespace, p.Name, p.UID); gone || err != nil {
				t.Errorf("%T: %s gone %v, %v", s, p.Name, gone, err)
			}
		}
	}
	testDeleted(t, b, kubelet, api, pods.List[0])
	all = all[1:]
	testServerAway(t, b, api, all)
	testKubeletAlone(t, b, kubelet, all)
}

// testRights begins without any, and ends with those that the errors name.
func testRights(t *testing.T, b *fixture, kubelet, api kube.Source) {
	refused := func(s kube.Source, texts ...string) {
		t.Helper()
		await.Holds(t, patience, "a refusal", func(ctx context.Context) error {
			_, err := s.Pods(ctx)
			for _, want := range texts {
				if !errors.Is(err, kube.ErrForbidden) || !strings.Contains(err.Error(), want) {
					return fmt.Errorf("%w does not contain %q", err, want)
				}
			}
			return nil
		})
	}
	refused(api, `User "ebb" cannot list resource "pods"`, "list and watch pods")
	refused(kubelet, "user=ebb", "get nodes/metrics")
	b.Allow(t, "ebb-pods", peerstest.User("ebb"), rule("pods", "get", "list", "watch"))
	b.Allow(t, "ebb-metrics", peerstest.User("ebb"), rule("nodes/metrics", "get"))
	refused(kubelet, "user=ebb", "get nodes/pods")
	b.Allow(t, "ebb-kubelet", peerstest.User("ebb"), rule("nodes/pods", "get"))
	names(t, api)
	names(t, kubelet)

	// A certificate of another authority.
	other, err := peers.NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	creds, err := other.Client(peers.User{Name: "ebb"})
	if err != nil {
		t.Fatal(err)
	}
	files, err := creds.Write(t.TempDir(), "other")
	if err != nil {
		t.Fatal(err)
	}
	s, err := kube.NewKubelet(kube.KubeletOptions{URL: b.kubelet.URL(), InsecureSkipVerify: true, CertFile: files.Cert, KeyFile: files.Key})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	if _, err := s.Pods(t.Context()); !errors.Is(err, kube.ErrUnauthorized) || !strings.Contains(err.Error(), files.Cert) {
		t.Errorf("an unknown authority: %v", err)
	}
}

func testDeleted(t *testing.T, b *fixture, kubelet, api kube.Source, job kube.Pod) {
	own := apiSource(t, b, "system:node:"+nodeName, "system:nodes")
	names(t, own, "job", "static-"+nodeName, "web")
	b.do(t, http.MethodDelete, "/api/v1/namespaces/default/pods/job", nil)
	for _, s := range []kube.Source{kubelet, api, own} {
		names(t, s, "static-"+nodeName, "web")
	}
	for _, s := range []kube.Source{kubelet, api} {
		if gone, err := s.Pass().Gone(t.Context(), job.Namespace, job.Name, job.UID); !gone || err != nil {
			t.Errorf("%T: gone %v, %v", s, gone, err)
		}
	}
	// See the package comment: a node may not ask for what is gone.
	if gone, err := own.Pass().Gone(t.Context(), job.Namespace, job.Name, job.UID); gone || !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("as the node itself: gone %v, %v", gone, err)
	}
}

func testServerAway(t *testing.T, b *fixture, api kube.Source, all []string) {
	if err := b.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	await.Holds(t, patience, "not known", func(ctx context.Context) error {
		if _, err := api.Pods(ctx); !errors.Is(err, kube.ErrUnavailable) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	if gone, err := api.Pass().Gone(t.Context(), "default", "job", "x"); gone || !errors.Is(err, kube.ErrUnavailable) {
		t.Errorf("gone %v, %v", gone, err)
	}
	if err := b.APIServer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	names(t, api, all...)
}

// testKubeletAlone restarts the kubelet while the API server is away: it
// answers with static pods only, and must not be believed.
func testKubeletAlone(t *testing.T, b *fixture, kubelet kube.Source, all []string) {
	names(t, kubelet, all...)
	if err := errors.Join(b.APIServer.Kill(), b.kubelet.Kill()); err != nil {
		t.Fatal(err)
	}
	// Else nobody would be let in before the API server is back.
	config, err := os.ReadFile(b.kubelet.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte("mode: Webhook"), []byte("mode: AlwaysAllow"), 1)
	if err := os.WriteFile(b.kubelet.ConfigFile(), config, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.kubelet.Start(ctx) }) // waits for a node that is ready; ended below
	defer wg.Wait()
	defer cancel()
	await.Holds(t, patience, "the static pod alone", func(ctx context.Context) error {
		if pods, err := kubelet.Pods(ctx); err == nil {
			t.Fatalf("a kubelet that has not heard from the API server is believed: %+v", pods)
		}
		list, err := b.kubelet.Pods(ctx)
		if err == nil && len(list) != 1 {
			err = fmt.Errorf("the kubelet lists %+v", list)
		}
		return err
	})
	for range 20 {
		if pods, err := kubelet.Pods(t.Context()); !errors.Is(err, kube.ErrIncomplete) {
			t.Fatalf("%+v, %v", pods, err)
		}
		if gone, err := kubelet.Pass().Gone(t.Context(), "default", "web", "x"); gone || !errors.Is(err, kube.ErrIncomplete) {
			t.Fatalf("gone %v, %v", gone, err)
		}
		time.Sleep(100 * time.Millisecond) // over the first of the kubelet's rounds, every 2 s
	}
	if err := b.APIServer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	names(t, kubelet, all...)
}
