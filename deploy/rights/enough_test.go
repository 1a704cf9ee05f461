package rights

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

const mib = 1 << 20

// TestCapabilitiesAreEnough: an agent with what the DaemonSet gives loads all its
// programs, names who fills the disk, and removes images when the disk is full.
func TestCapabilitiesAreEnough(t *testing.T) { areEnough(t, granted(t), true) }

// TestPresetIsEnough: so does one without SYS_ADMIN, where no program looks into a module of the
// kernel. Where one does, images are removed all the same.
func TestPresetIsEnough(t *testing.T) {
	capabilities := preset(t)
	if slices.Contains(capabilities, "SYS_ADMIN") {
		t.Fatalf("the preset has %v", capabilities)
	}
	builtIn := true
	for _, module := range []string{"overlay", "ext4"} {
		if _, err := os.Stat("/sys/module/" + module + "/initstate"); err == nil {
			builtIn = false
		}
	}
	areEnough(t, capabilities, builtIn)
}

// areEnough runs an agent with these capabilities, all of whose programs are to be there or not.
func areEnough(t *testing.T, capabilities []string, programs bool) {
	needRoot(t)
	dir, binary := t.TempDir(), buildtest.Program(t, "cmd/ebb-agent")
	wrapper := filepath.Join(dir, "confined")
	script := "#!/bin/sh\nexec " + strings.Join(confined(capabilities, binary), " ") + " \"$@\"\n"
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}

	n := nodetest.Start(t, node.Config{Name: fmt.Sprintf("rights-%d", os.Getpid()), SizeBytes: 256 * mib})
	var images []node.Image
	for i := range 4 {
		images = append(images, node.Image{Name: fmt.Sprintf("rights.test/a%d:1", i), Layers: []node.Layer{{Seed: fmt.Sprint(i), Bytes: 10 * mib}}})
	}
	if _, err := n.ImportAll(t.Context(), "k8s.io", images); err != nil {
		t.Fatal(err)
	}
	c := agentrun.ConfigFor(n)
	c.Images.MinimumAge = 0
	c.Writers.Top = 5
	p, err := agentrun.Start(t.Context(), agentrun.Options{Binary: wrapper, Dir: dir, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if err := agentrun.Unload(c); err != nil {
			t.Error(err)
		}
	})
	var missing []string
	if !await(t, func() bool {
		missing = lacks(t, p)
		return len(missing) == 0 || !programs
	}) {
		t.Errorf("with %v something is missing: %q", capabilities, missing)
	}
	if err := n.FillTo("rights", 85); err != nil {
		t.Fatal(err)
	}
	removed := await(t, func() bool {
		got, err := p.Metric(t.Context(), `ebb_node_images_removed_total{reason="threshold"}`)
		return err == nil && got > 0
	})
	if !removed {
		t.Error("no image was removed from a full disk")
	}
	if !programs {
		return
	}
	writers, err := p.Get(t.Context(), "/writers")
	if err != nil || strings.Contains(writers, `"cgroup": ""`) || !strings.Contains(writers, `"cgroup": "/`) {
		t.Errorf("cannot read who fills the disk: %v, %s", err, writers)
	}
}

// lacks lists what is not seen in the kernel but could be.
func lacks(t *testing.T, p *agentrun.Process) (list []string) {
	t.Helper()
	metrics, err := p.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(metrics, `ebb_node_probe_degraded{object="lastuse"}`) || !strings.Contains(metrics, `ebb_node_filesystem_polled{filesystem="images"`) {
		return []string{"the metrics of the programs are missing"}
	}
	for line := range strings.Lines(metrics) {
		degraded := strings.HasPrefix(line, "ebb_node_probe_degraded{")
		polled := strings.HasPrefix(line, "ebb_node_filesystem_polled{")
		if (degraded || polled) && !strings.HasSuffix(line, " 0\n") {
			list = append(list, line)
		}
	}
	return list
}

func await(t *testing.T, holds func() bool) bool {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}
