package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

// unloadVariable is set in a machine whose modules nobody else uses (tools/vm).
const unloadVariable = "EBB_TEST_UNLOAD_MODULES"

// loaded reports whether the kernel has a module.
func loaded(t *testing.T, name string) bool {
	t.Helper()
	state, err := os.ReadFile("/sys/module/" + name + "/initstate")
	return err == nil && strings.TrimSpace(string(state)) == "live"
}

// TestModulesComeLater: the agent comes first on a node, before anybody has
// mounted an overlay or an xfs. It has the kernel load the one, and takes the
// other up when the images turn out to lie there.
func TestModulesComeLater(t *testing.T) {
	if os.Getenv(unloadVariable) == "" {
		t.Skipf("SKIPPED: %s is not set: the modules of this machine's filesystems are not this test's to unload, or are built in", unloadVariable)
	}
	b := &fixture{T: t, ctx: t.Context(), binary: binary, journal: newJournal(), scenario: newScenario()}
	for _, name := range []string{"overlay", "xfs"} {
		if !loaded(t, name) {
			continue
		}
		// What a test before has unmounted lets go of it a moment later.
		b.eventually("module "+name+" to go", func() error {
			out, err := exec.Command("rmmod", name).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
	}
	name := fmt.Sprintf("e2e-%d-%d", os.Getpid(), fixtures.Add(1))
	b.config = config.Default()
	b.config.Mode = config.ModeEnforce
	b.config.Runtime.Socket = filepath.Join(node.BaseDir(), name, "containerd.sock")
	b.config.Kernel.PinDirectory = "/sys/fs/bpf/ebb-" + name
	b.config.State.Directory = t.TempDir()
	b.config.State.LockFile = filepath.Join(b.config.State.Directory, "agent.lock")
	b.config.Server.Address = "127.0.0.1:0"
	b.config.Server.AdminSocket = filepath.Join(b.config.State.Directory, "agent.sock")
	b.config.Images.MinimumAge = 0
	b.config.Images.HighThresholdPercent, b.config.Images.LowThresholdPercent = 80, 75
	b.firstOnNode()
	if !loaded(t, "overlay") || loaded(t, "xfs") {
		t.Fatalf("overlay is loaded: %v; xfs: %v", loaded(t, "overlay"), loaded(t, "xfs"))
	}

	b.node = nodetest.Start(t, node.Config{Name: name, FS: "xfs", SizeBytes: 512 * mib})
	b.importImages(plains("a", 6)...)
	b.awaitMetric(`ebb_node_filesystem_polled{filesystem="images"}`, 0)
	// On a slow machine the agent hears of an image before it is unpacked, and then of nothing
	// until a container runs: it cannot be waited for that it tracks all layers.
	b.tracked = true
	b.use("a3", "a1", "a5", "a0", "a4", "a2")
	b.awaitOrder()
	// On a slow machine an image may be listed before it is unpacked: the kernel notes
	// uses of layers that the agent does not know yet.
	stamped := b.metric(`ebb_node_probe_events_total{event="stamped"}`)
	noted := b.metric(`ebb_node_probe_events_total{event="unresolved"}`)
	if stamped+noted < 6 {
		t.Errorf("the kernel stamped %g and noted %g uses of 6 containers", stamped, noted)
	}
	mark := b.journal.mark()
	u, err := b.node.Usage()
	b.must(err)
	// At once, for the emulated machine writes so slowly that the run is over before.
	b.must(fallocate(filepath.Join(b.node.Mount(), "fill"), int64(u.AvailableBytes-u.CapacityBytes/100*18)))
	b.journal.await(t, mark, "reclaim run ended")
	b.checkRun(mark)
	// A look that the last container's end has set off may have found the full disk before
	// the kernel's word of it came; it comes all the same.
	b.awaitAtLeast(`ebb_node_filesystem_threshold_crossings_total{filesystem="images"}`, 1)
}

// firstOnNode starts the agent before there is a runtime for it.
func (b *fixture) firstOnNode() {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	p, err := agentrun.StartUnready(ctx, agentrun.Options{
		Binary: b.binary, Dir: b.TempDir(), Config: b.config, OnLine: b.journal.add,
	})
	b.must(err)
	b.agent = p
	b.Cleanup(func() {
		if b.Failed() {
			b.Logf("the agent's log ends with:\n%s", b.journal)
		}
		b.stop()
		if err := agentrun.Unload(b.config); err != nil {
			b.Errorf("unload kernel programs: %v", err)
		}
	})
}

// fallocate takes space in one call.
func fallocate(path string, bytes int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, bytes), f.Close())
}
