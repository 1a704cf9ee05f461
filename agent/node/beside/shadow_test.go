package beside

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
)

// day is a node on which the same pods come and go, and the same is written.
type day struct {
	*fixture
	registry string
	message  string // of an image that goes, or would
}

func newDay(t *testing.T, mode config.Mode) *day {
	d := &day{fixture: newFixture(t, node.V2, nil, handedOver), message: "image removed"}
	if mode == config.ModeObserve {
		d.message = "image would be removed"
	}
	d.config.Mode = mode
	d.config.Containers.Enabled = false // one that observes would leave the dead, and they keep their images
	d.config.Images.HighThresholdPercent, d.config.Images.LowThresholdPercent = 80, 72
	images := map[string]node.Image{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		images[name] = node.Image{Layers: []node.Layer{{Seed: name, Bytes: 8 * mib}}} // and as many packed
	}
	d.registry = d.serve(images)
	d.must(d.start(t.Context()))
	return d
}

// runs has the kubelet run a pod, pull its image if that is missing, and end the pod. What is dead goes at once; the
// kubelet would take up to a minute.
func (d *day) runs(image string) {
	d.Helper()
	d.must(d.kubelet.AddStaticPod(image, peers.PodSpec{Name: image, Image: d.registry + image + ":latest"}.Manifest()))
	d.waitPod(image+"-"+d.kubelet.NodeName(), peers.IsRunning)
	d.must(d.kubelet.RemoveStaticPod(image))
	d.waitPod(image+"-"+d.kubelet.NodeName(), peers.IsGone)
	runtime, _ := d.node.CRI()
	d.eventually("the containers to end", func() error {
		sandboxes, err := runtime.ListPodSandbox(d.Context(), &runtimeapi.ListPodSandboxRequest{})
		for _, s := range sandboxes.GetItems() {
			err = errors.Join(err, fmt.Errorf("sandbox of %s", s.Metadata.Name))
			if s.State == runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
				_, _ = runtime.RemovePodSandbox(d.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.Id}) // the kubelet may be first
			}
		}
		return err
	})
}

// goes waits until so many images went, or would have, and returns their names in that order.
func (d *day) goes(want int) (names []string) {
	d.Helper()
	d.eventually(fmt.Sprintf("%d times %q", want, d.message), func() error {
		names = nil
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, l := range d.logs {
			if l.Message == d.message {
				references, _ := l.Fields["references"].([]any)
				name, _, _ := strings.Cut(path.Base(fmt.Sprint(references...)), ":")
				names = append(names, name)
			}
		}
		if len(names) < want {
			return fmt.Errorf("it was %q", names)
		}
		return nil
	})
	return names
}

// live has the day pass. An image takes 16 MiB of 320: from 80 to 72 percent it takes two.
func (d *day) live() (gone []string) {
	d.Helper()
	for _, image := range []string{"a", "b", "c", "d", "e", "f"} {
		d.runs(image)
	}
	u, err := d.node.Usage()
	d.must(err)
	d.must(d.node.Fill("first", int64(u.AvailableBytes)-int64(float64(u.CapacityBytes)*0.195))) // once, whatever the agent removes meanwhile
	d.goes(2)
	d.runs("a") // is needed again
	d.must(d.node.Fill("second", 20*mib))
	d.goes(4)
	d.runs("c")
	d.runs("g")
	return d.goes(6)
}

func (d *day) status() (s page.Status) {
	d.Helper()
	body, err := d.agent.Get(d.Context(), "/status")
	d.must(err)
	d.must(json.Unmarshal([]byte(body), &s))
	return s
}

func (d *day) images() (ids []string) {
	d.Helper()
	_, images := d.node.CRI()
	list, err := images.ListImages(d.Context(), &runtimeapi.ListImagesRequest{})
	d.must(err)
	for _, i := range list.Images {
		ids = append(ids, i.Id)
	}
	return ids
}

// TestShadow: beside a kubelet that runs the same pods, an agent that observes reports as removable what one
// that enforces then removes. What the kubelet removes, it counts beside.
func TestShadow(t *testing.T) {
	var observed []string
	t.Run("observe", func(t *testing.T) {
		d := newDay(t, config.ModeObserve)
		before := d.images()
		observed = d.live()
		if again := d.status().Observed.Ebb.PulledAgain; again != 2 {
			t.Errorf("%d images were needed again, want a and c", again)
		}
		all := d.images()
		if len(all) != len(before)+7 {
			t.Errorf("of seven images %d are there", len(all)-len(before))
		}
		d.kubelet.SetArgs("--eviction-hard=nodefs.available<15%") // its image GC looks each five minutes, this each ten seconds
		d.must(d.kubelet.Restart(t.Context()))
		d.eventually("the agent to count what the kubelet removed", func() error {
			left := d.images()
			went := len(slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(left, id) }))
			if o := d.status().Observed.Others; went == 0 || o.Images != went || o.Freed.Bytes < uint64(went)*16*mib {
				return fmt.Errorf("%d went, the agent reports %+v", went, o)
			}
			return nil
		})
	})
	t.Run("enforce", func(t *testing.T) {
		d := newDay(t, config.ModeEnforce)
		if removed := d.live(); !slices.Equal(observed, removed) {
			t.Errorf("mode observe reported %q, mode enforce removed %q", observed, removed)
		}
		if s := d.status(); s.Observed != nil {
			t.Errorf("an agent that enforces has observed %+v", s.Observed)
		}
	})
}
