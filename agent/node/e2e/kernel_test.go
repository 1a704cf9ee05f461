package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/node"
)

// TestWithoutKernel: with no programs in the kernel, uses come from the
// runtime's events and the disk is read now and then. The agent logs
// that with the reason.
func TestWithoutKernel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*fixture)
		reasons []string
	}{
		"disabled":        {func(b *fixture) { b.config.Kernel.Enabled = false }, []string{"switched off by kernel.enabled"}},
		"capabilities":    {(*fixture).dropCapabilities, []string{"CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"}},
		"no BTF":          {(*fixture).hideBTF, []string{"not supported by this kernel", "BTF"}},
		"bpffs read-only": {(*fixture).readOnlyPins, []string{"read-only file system", "/pins"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, node.Debian, plains("a", 7)...)
			c.prepare(b)
			b.tracked = true // by events alone
			mark := b.journal.mark()
			b.start()
			line := b.journal.await(t, mark, "no kernel programs: last use comes from runtime events, the disk is read every 10s")
			for _, reason := range c.reasons {
				if !strings.Contains(line.Text("reason"), reason) {
					t.Errorf("%q is not in the reason: %s", reason, line.Text("reason"))
				}
			}
			if got := b.metric(`ebb_node_filesystem_polled{filesystem="images"}`); got != 1 {
				t.Errorf("polling is %g", got)
			}
			b.awaitMetric("ebb_node_runtime_events_up", 1)
			for _, name := range []string{"a3", "a1", "a5", "a0", "a4", "a2", "a6"} {
				b.use(name)
				b.awaitOrder() // events come in order, but some time after the fact
			}
			// In one write, for the disk is read by timer. It is up to ten seconds later: what
			// containerd's own collector gives back until then must not hide it.
			b.fill(float64(b.config.Images.HighThresholdPercent) - 1.5)
			u, err := b.node.Usage()
			b.must(err)
			b.must(b.node.Fill("fill", int64(u.CapacityBytes)/100*4))
			b.journal.await(t, mark, "reclaim run ended")
			b.checkRun(mark)
		})
	}
}

// dropCapabilities makes the agent run without what BPF programs need.
func (b *fixture) dropCapabilities() {
	b.Helper()
	b.binary = filepath.Join(b.TempDir(), "ebb-agent")
	b.must(os.WriteFile(b.binary, fmt.Appendf(nil,
		"#!/bin/sh\nexec setpriv --bounding-set=-bpf,-perfmon,-sys_admin --inh-caps=-bpf,-perfmon,-sys_admin %s \"$@\"\n", binary), 0o700))
}

// hideBTF makes the agent see a kernel without type information.
func (b *fixture) hideBTF() {
	b.Helper()
	b.binary = filepath.Join(b.TempDir(), "ebb-agent")
	b.must(os.WriteFile(b.binary, fmt.Appendf(nil,
		"#!/bin/sh\nexec unshare --mount --propagation slave sh -c 'mount -t tmpfs none /sys/kernel/btf && exec \"$@\"' sh %s \"$@\"\n", binary), 0o700))
}

// readOnlyPins is a bpffs that a DaemonSet has mounted without the right to write.
func (b *fixture) readOnlyPins() {
	b.Helper()
	dir := filepath.Join(b.node.Dir(), "pins")
	b.must(os.MkdirAll(dir, 0o700))
	b.must(unix.Mount("bpf", dir, "bpf", unix.MS_RDONLY, ""))
	b.Cleanup(func() { b.must(unix.Unmount(dir, 0)) })
	b.config.Kernel.PinDirectory = filepath.Join(dir, "ebb")
}
