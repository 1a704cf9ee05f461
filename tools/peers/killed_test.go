package peers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// The owner of it all is played by this test binary, run again with this in its
// environment, so that it can be killed without notice.
const ownerBase = "PEERS_TEST_OWNER_BASE"

func TestMain(m *testing.M) {
	if base := os.Getenv(ownerBase); base != "" {
		if err := playOwner(base); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// playOwner starts a control plane, a node and a kubelet with a pod, prints a line, and
// holds them until it is killed.
func playOwner(base string) error {
	ctx := context.Background()
	cp, err := peers.StartControlPlane(ctx, peers.Config{
		Name: "owned", Base: filepath.Join(base, "peers"), ControllerManager: true, Scheduler: true,
	})
	if err != nil {
		return err
	}
	n, err := node.Start(ctx, node.Config{Name: "owned", Base: filepath.Join(base, "node"), SizeBytes: 256 << 20})
	if err != nil {
		return err
	}
	if _, err := n.Import(ctx, node.CRINamespace, node.Image{Name: image}); err != nil {
		return err
	}
	k, err := peers.StartKubelet(ctx, peers.KubeletConfig{Node: n, ControlPlane: cp})
	if err != nil {
		return err
	}
	if err := k.AddStaticPod("app", peers.PodSpec{Name: "app", Image: image}.Manifest()); err != nil {
		return err
	}
	if err := k.WaitPod(ctx, "default", "app-owned", peers.IsRunning); err != nil {
		return err
	}
	fmt.Println("ready", k.PID(), cp.Etcd.PID(), cp.APIServer.PID(), cp.ControllerManager.PID(), cp.Scheduler.PID())
	select {}
}

// startOwner returns the running owner and the pids of what it runs. Whatever
// happens to the test, nothing of it stays.
func startOwner(t *testing.T, base string) (owner *exec.Cmd, pids []string) {
	t.Helper()
	owner = exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerBase+"="+base)
	owner.Stderr = t.Output()
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = owner.Process.Kill() // no matter if it was killed before
		_ = owner.Wait()
		if _, _, err := clean(t, base); err != nil {
			t.Errorf("clean up: %v", err)
		}
		if err := os.RemoveAll(base); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("owner printed %q: %v", line, err)
	}
	return owner, strings.Fields(line)[1:]
}

// clean returns the names of the control planes and of the nodes that are gone.
func clean(t *testing.T, base string) (cps, nodes []string, err error) {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cps, err = peers.Clean(filepath.Join(base, "peers"), log)
	nodes, errNodes := node.Clean(context.Background(), filepath.Join(base, "node"), log)
	return cps, nodes, errors.Join(err, errNodes)
}

func TestNothingOutlivesItsOwner(t *testing.T) {
	peerstest.Need(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a kubelet needs root (mounts, containers)")
	}
	// Not t.TempDir: etcd's sockets are in it, and their paths have to be short.
	base, err := os.MkdirTemp("", "peers")
	if err != nil {
		t.Fatal(err)
	}
	owner, pids := startOwner(t, base)
	if cps, nodes, err := clean(t, base); err != nil || len(cps)+len(nodes) > 0 {
		t.Fatalf("Clean with a living owner: %v, %v, %v; want nothing", cps, nodes, err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // returns "signal: killed"
	for _, pid := range pids {
		await.Holds(t, time.Minute, "an end of process "+pid, func(context.Context) error {
			if _, err := os.Stat("/proc/" + pid); err == nil {
				return errors.New("still there")
			}
			return nil
		})
	}
	cps, nodes, err := clean(t, base)
	if err != nil || !slices.Equal(cps, []string{"owned"}) || !slices.Equal(nodes, []string{"owned"}) {
		t.Errorf("Clean: %v, %v, %v; want one of each", cps, nodes, err)
	}
	testTraces(t, base)
}

// testTraces looks for what may be left of a base directory.
func testTraces(t *testing.T, base string) {
	left, err := filepath.Glob(filepath.Join(base, "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(base))
	if err != nil || len(mounts) > 0 {
		t.Errorf("%d mounts left behind, %v", len(mounts), err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), base+"/") {
			t.Errorf("process left behind: %q", line)
		}
	}
}
