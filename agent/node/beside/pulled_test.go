package beside

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
)

// TestPulledRecords checks what docs/kubelet.md states about the kubelet's records of the
// images that it pulled. The kubelet prunes them only after it has looked for images to
// remove for space: a node below its threshold keeps them, be the threshold at 100 or at 99. When
// it prunes them, it forgets images that run, too.
func TestPulledRecords(t *testing.T) {
	b := newFixture(t, node.V2, nil, handedOver)
	registry := b.serve(map[string]node.Image{
		"runs": {Layers: []node.Layer{{Seed: "runs", Bytes: mib}}},
		"ends": {Layers: []node.Layer{{Seed: "ends", Bytes: 30 * mib}}},
	})
	for _, name := range []string{"runs", "ends"} {
		b.must(b.kubelet.AddStaticPod(name, peers.PodSpec{Name: name, Image: registry + name + ":latest"}.Manifest()))
		b.waitPod(name+"-"+b.kubelet.NodeName(), peers.IsRunning)
	}
	both := []string{registry + "ends", registry + "runs"}
	b.wantPulled("after the pulls", both)
	b.must(b.kubelet.RemoveStaticPod("ends"))
	b.waitPod("ends-"+b.kubelet.NodeName(), peers.IsGone)
	b.must(b.start(t.Context()))
	b.must(b.node.FillTo("fill", 82))
	b.eventually("ebb to remove the image", func() error {
		if b.count("image removed", "", "") == 0 {
			return errors.New("it removed none")
		}
		return nil
	})

	// As docs/kubelet.md advises: no work of image GC.
	log := b.kubeletLog()
	if !strings.Contains(log, "Disable image GC") || strings.Contains(log, "Image garbage collection succeeded") {
		t.Error("with 100 the kubelet does not leave image GC out")
	}
	b.wantPulled("at 100", both)
	b.wantNoneRemoved()

	// Below a lower threshold the kubelet works, but not at this.
	b.collectFrom(99, 98, func(log string) error {
		if !strings.Contains(log, "Image garbage collection succeeded") {
			return errors.New("image GC did not run")
		}
		return nil
	})
	b.wantPulled("at 99, not reached", both)
	b.wantNoneRemoved()

	b.must(b.kubelet.Kill())
	b.cleanUpPulled(false)
	b.wantPulled("after a clean-up without a runtime", both)
	b.cleanUpPulled(true)
	b.wantPulled("after the clean-up", both[1:])

	// Above its threshold it prunes, also what runs.
	b.collectFrom(30, 20, func(string) error {
		if left := b.pulled(); len(left) > 0 {
			return fmt.Errorf("records are left of %q", left)
		}
		return nil
	})
	b.waitPod("runs-"+b.kubelet.NodeName(), peers.IsRunning)
}

// collectFrom restarts the kubelet with other thresholds, and waits until its image GC has
// done something; done gets what the kubelet has logged since. The first run, at once,
// can come before its figures of the disk; the next is five minutes later, so that it
// is restarted then.
func (b *fixture) collectFrom(high, low int, done func(log string) error) {
	b.Helper()
	file := b.kubelet.ConfigFile()
	data, err := os.ReadFile(file)
	b.must(err)
	kept := slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "imageGCHighThresholdPercent:") || strings.HasPrefix(line, "imageGCLowThresholdPercent:")
	})
	thresholds := fmt.Sprintf("imageGCHighThresholdPercent: %d\nimageGCLowThresholdPercent: %d\n", high, low)
	b.must(os.WriteFile(file, []byte(thresholds+strings.Join(kept, "\n")), 0o600))
	b.kubelet.SetArgs("--v=4") // logs runs that succeed
	from := len(b.kubeletLog())
	b.must(b.kubelet.Restart(b.Context()))
	b.eventually(fmt.Sprintf("image GC from %d %%", high), func() error {
		log := b.kubeletLog()[from:]
		err := done(log)
		_, why, failed := strings.Cut(log, "Image garbage collection failed once")
		if err != nil && failed {
			why, _, _ = strings.Cut(why, "\n")
			b.Logf("from %d %%: %v; the first run failed%s", high, err, why)
			from += len(log)
			b.must(b.kubelet.Restart(b.Context()))
		}
		return err
	})
}

func (b *fixture) kubeletLog() string {
	b.Helper()
	data, err := os.ReadFile(b.kubelet.LogFile())
	b.must(err)
	return string(data)
}

// pulled are the images of which the kubelet has a record, without tags.
func (b *fixture) pulled() []string {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(b.kubelet.RootDir(), "image_manager", "pulled", "sha256-*"))
	b.must(err)
	var names []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // pruned meanwhile
		}
		b.must(err)
		var record struct {
			CredentialMapping map[string]any `json:"credentialMapping"`
		}
		b.must(json.Unmarshal(data, &record))
		for name := range record.CredentialMapping {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// cleanUpPulled runs the commands of docs/kubelet.md, with a crictl that asks this
// node's runtime, or fails.
func (b *fixture) cleanUpPulled(answers bool) {
	b.Helper()
	page, err := os.ReadFile("../../../docs/kubelet.md")
	b.must(err)
	_, script, found := strings.Cut(string(page), "```sh\n")
	script, _, closed := strings.Cut(script, "```")
	if !found || !closed || !strings.Contains(script, "/var/lib/kubelet/") {
		b.Fatal("docs/kubelet.md has no commands that clean up")
	}
	_, images := b.node.CRI()
	list, err := images.ListImages(b.Context(), &runtimeapi.ListImagesRequest{})
	b.must(err)
	crictl := "#!/bin/sh\n[ \"$*\" = 'images -q --no-trunc' ] || exit 2\n"
	for _, image := range list.Images {
		crictl += "echo " + image.Id + "\n"
	}
	if !answers {
		crictl = "#!/bin/sh\nexit 1\n"
	}
	dir := b.TempDir()
	b.must(os.WriteFile(filepath.Join(dir, "crictl"), []byte(crictl), 0o755))
	b.must(os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\n"), 0o755))
	script = strings.ReplaceAll(script, "/var/lib/kubelet/", b.kubelet.RootDir()+"/")
	cmd := exec.CommandContext(b.Context(), "sh", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("clean up: %v: %s", err, out)
	}
}

func (b *fixture) wantPulled(when string, want []string) {
	b.Helper()
	if got := b.pulled(); !slices.Equal(got, want) {
		b.Errorf("%s: the kubelet has records of %q, want %q", when, got, want)
	}
}

// wantNoneRemoved asks the kubelet itself how many images it removed.
func (b *fixture) wantNoneRemoved() {
	b.Helper()
	resp, err := b.kubelet.Admin().Get(b.kubelet.URL() + "/metrics")
	b.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	b.must(err)
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "kubelet_imagemanager_ondisk_pulledrecords") {
		b.Errorf("metrics: %s", resp.Status)
	}
	if strings.Contains(string(body), "\nkubelet_image_garbage_collected_total") {
		b.Error("the kubelet removed images")
	}
}
