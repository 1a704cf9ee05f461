package peers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// TestKubeletReclaims fills the node's disk: what ebb is compared with has to
// happen here as it does on a machine of a kubelet's own.
func TestKubeletReclaims(t *testing.T) {
	n := nodeWithImage(t, node.V2)
	var unused []node.Image
	for i := range 5 {
		unused = append(unused, node.Image{
			Name:   fmt.Sprintf("peers.test/unused:%d", i),
			Layers: []node.Layer{{Seed: fmt.Sprint("unused-", i), Bytes: 10 << 20}},
		})
	}
	if _, err := n.ImportAll(t.Context(), node.CRINamespace, unused); err != nil {
		t.Fatal(err)
	}
	// Under pressure, too, it spares images that it has known for less than this;
	// zero means its default of two minutes.
	k := peerstest.StartKubelet(t, peers.KubeletConfig{Node: n, Configuration: map[string]any{"imageMinimumGCAge": "1ms"}})
	if err := k.AddStaticPod("app", peers.PodSpec{Name: "app", Image: image}.Manifest()); err != nil {
		t.Fatal(err)
	}
	waitPod(t, k, "app-"+k.NodeName(), peers.IsRunning)
	if got := len(images(t, n)); got != 2+len(unused) {
		t.Fatalf("%d images before the disk is full, want %d", got, 2+len(unused))
	}

	// Its eviction manager acts at 15 % available, looking every 10 s.
	if err := n.FillTo("ballast", 87); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	await.Holds(t, time.Minute, "the kubelet to remove unused images", func(context.Context) error {
		if got := images(t, n); len(got) > 2 {
			return fmt.Errorf("images are %v", got)
		}
		return nil
	})
	t.Logf("the kubelet removed %d unused images %v after the disk was full", len(unused), time.Since(begun).Round(time.Millisecond))
	if got := images(t, n); !slices.Contains(got, image) || !slices.Contains(got, node.SandboxImage) {
		t.Errorf("what is in use has gone; left: %v", got)
	}
}

// images are the names of the images that CRI has, sorted.
func images(t *testing.T, n *node.Node) []string {
	t.Helper()
	_, cri := n.CRI()
	list, err := cri.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range list.Images {
		names = append(names, i.RepoTags...)
	}
	slices.Sort(names)
	return names
}
