package doctor

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

// freeAddress is one that nobody listens at now.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// TestBesideAnAgent: a running agent is found, its programs are looked at where
// they are pinned, and it goes on undisturbed.
func TestBesideAnAgent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a throwaway node and the kernel's programs")
	}
	binary := buildtest.Program(t, "cmd/ebb-agent")
	n := nodetest.Start(t, node.Config{Containerd: node.Debian, SizeBytes: 256 << 20})
	c := agentrun.ConfigFor(n)
	c.Server.Address, c.Server.AdminSocket = freeAddress(t), ""
	agent, err := agentrun.Start(t.Context(), agentrun.Options{Binary: binary, Dir: n.Dir(), Config: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := agent.Stop(); err != nil {
			t.Errorf("stop agent: %v", err)
		}
		if err := agentrun.Unload(c); err != nil {
			t.Errorf("unload: %v", err)
		}
	})
	before := pins(t, c.Kernel.PinDirectory)
	// Kubelets of other tests may run on this machine; they are nobody's here.
	f := Collect(t.Context(), Options{Config: c, KubeletPID: os.Getpid()})
	if diff := cmp.Diff(before, pins(t, c.Kernel.PinDirectory)); diff != "" || len(before) == 0 {
		t.Errorf("pins changed:\n%s", diff)
	}
	if !f.Agent.Ready || f.Agent.PID == 0 || f.Probes.Report == nil || f.Probes.Report.Trial {
		t.Errorf("agent %+v, probes %+v", f.Agent, f.Probes)
	}
	got := levelsOf(f)
	for _, id := range []string{"agent.running", "probes", "kernel.bpffs", "disk.images", "runtime"} {
		if got[id] != OK {
			t.Errorf("%s is %q", id, got[id])
		}
	}
	for id, level := range got {
		if level == Error {
			t.Errorf("%s is an error beside an agent that is ready", id)
		}
	}
	if err := agent.AwaitReady(t.Context()); err != nil {
		t.Errorf("the agent afterwards: %v", err)
	}
}

// pins are the names below a pin directory.
func pins(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
