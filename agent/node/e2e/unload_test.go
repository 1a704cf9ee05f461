package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/tools/node"
)

// TestUnload: ebb-agent unload leaves nothing of what an agent, killed, has left on
// the node; but it takes nothing from one that runs.
func TestUnload(t *testing.T) {
	t.Parallel()
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		t.Run(string(flavor), func(t *testing.T) {
			t.Parallel()
			testUnload(t, flavor)
		})
	}
}

func testUnload(t *testing.T, flavor node.Flavor) {
	b := newFixture(t, flavor, plain("a", layerBytes), plain("b", layerBytes))
	b.config.Writers.Top = 5 // everything there is
	b.use("a")
	before := b.traces()
	b.start()
	b.use("a")
	b.awaitOrder()
	programs := b.pinnedPrograms()

	if out, err := b.unload(); err == nil || !strings.Contains(out, "another ebb-agent runs on this node: pid ") {
		t.Errorf("unload beside an agent: %v: %s", err, out)
	}
	b.use("a")
	b.awaitOrder()
	b.kill()
	for _, id := range programs {
		if err := isGone(id); err == nil {
			t.Errorf("program %d went with the agent", id)
		}
	}
	b.withdrawAndDie("b")
	if during := b.traces(); cmp.Equal(before, during) {
		t.Fatalf("an agent leaves no traces: nothing is compared here:\n%v", during)
	}
	for n, want := range []string{"1 images got their names back", "0 images got their names back"} {
		out, err := b.unloadFromContainer()
		if err != nil || !strings.Contains(out, want) || !strings.Contains(out, "nothing of ebb is left") {
			t.Fatalf("unload, time %d: %v: %s", n+1, err, out)
		}
	}
	if _, err := os.Lstat(b.config.Server.AdminSocket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the admin socket of the agent that was killed: %v", err)
	}
	if diff := cmp.Diff(before, b.traces()); diff != "" {
		t.Errorf("traces of ebb (-before the agent, +after):\n%s", diff)
	}
	for _, id := range programs {
		b.eventually(fmt.Sprint("the end of program ", id), func() error { return isGone(id) })
	}
	// Without containerd the rest goes all the same, and the output names what could not be checked.
	b.must(os.MkdirAll(b.config.State.Directory, 0o700))
	b.must(b.node.Stop(b.ctx))
	if out, err := b.unload(); err == nil || !strings.Contains(out, "clear containerd: ") || !strings.Contains(out, "state: "+b.config.State.Directory+" removed") {
		t.Errorf("without containerd: %v: %s", err, out)
	}
}

// withdrawAndDie is an agent that dies in the middle of a removal, and one that does
// while it looks where a layer is.
func (b *fixture) withdrawAndDie(name string) {
	b.Helper()
	rt, err := containerd.Connect(b.ctx, b.node.Socket(), slog.New(slog.DiscardHandler))
	b.must(err)
	b.must(errors.Join(withdraw(b.ctx, rt, b.scenario.ids[name]), rt.Close()))
	for _, namespace := range []string{node.CRINamespace, "elsewhere"} {
		in := namespaces.WithNamespace(b.ctx, namespace)
		_, err := b.node.Client().LeasesService().Create(in, leases.WithRandomID(), leases.WithExpiration(time.Hour),
			leases.WithLabel("ebb-agent.github.io/layer-view", "dead"))
		b.must(err)
	}
}

// traces are all that an agent could leave: files, pins, and what is in containerd.
func (b *fixture) traces() (all []string) {
	b.Helper()
	for _, place := range []string{b.node.Dir(), b.config.State.Directory, b.config.Kernel.PinDirectory, filepath.Dir(b.config.State.LockFile)} {
		found, err := filepath.Glob(place + "*/*")
		b.must(err)
		for _, path := range append(found, place) {
			name := filepath.Base(path)
			_, err := os.Lstat(path)
			if errors.Is(err, os.ErrNotExist) || strings.HasPrefix(name, "agent.") || strings.HasPrefix(name, "containerd.log") {
				continue // what the test itself has written
			}
			all = append(all, path)
		}
	}
	spaces, err := b.node.Client().NamespaceService().List(b.ctx)
	b.must(err)
	for _, space := range spaces {
		in := namespaces.WithNamespace(b.ctx, space)
		held, err := b.node.Client().LeasesService().List(in)
		b.must(err)
		for _, l := range held {
			all = append(all, "lease "+space+"/"+l.ID)
		}
		names, err := b.node.Client().ImageService().List(in)
		b.must(err)
		for _, i := range names {
			all = append(all, "image "+space+"/"+i.Name)
		}
		b.must(b.node.Client().SnapshotService("overlayfs").Walk(in, func(_ context.Context, s snapshots.Info) error {
			if s.Kind != snapshots.KindCommitted {
				all = append(all, "snapshot "+space+"/"+s.Name)
			}
			return nil
		}))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestUnloadWaits: for an agent that is about to end; and it leaves the state if asked to.
func TestUnloadWaits(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 3)...)
	b.start()
	b.use("a2", "a0", "a1")
	b.awaitOrder()
	done := make(chan string, 1)
	go func() {
		out, err := b.unload("--wait", "1m", "--keep-state")
		done <- fmt.Sprint(out, err)
	}()
	select {
	case early := <-done:
		t.Fatalf("it did not wait: %s", early)
	case <-time.After(time.Second): // it must not happen at all
	}
	b.stop()
	if out := <-done; !strings.Contains(out, "nothing of ebb is left") || !strings.Contains(out, "kept") {
		t.Error(out)
	}
	b.start()
	b.awaitOrder() // known from the state alone: no pins were left
}

func (b *fixture) unload(args ...string) (output string, err error) {
	args = append([]string{"unload", "--config", filepath.Join(b.node.Dir(), "agent.yaml")}, args...)
	out, err := exec.CommandContext(b.ctx, b.binary, args...).CombinedOutput()
	return string(out), err
}

// unloadFromContainer does it from where the node is mounted somewhere, as in a pod,
// and with the one capability that such a pod is given.
func (b *fixture) unloadFromContainer() (output string, err error) {
	b.Helper()
	host := b.TempDir()
	const script = `mount --make-rprivate / && mount --rbind / "$1" && exec setpriv --bounding-set -all,+sys_chroot "$2" unload --config "$3" --root "$1"`
	out, err := exec.CommandContext(b.ctx, "unshare", "--mount", "sh", "-c", script, "sh",
		host, b.binary, filepath.Join(b.node.Dir(), "agent.yaml")).CombinedOutput()
	return string(out), err
}

// pinnedPrograms are those that record for the agent.
func (b *fixture) pinnedPrograms() (ids []ebpf.ProgramID) {
	b.Helper()
	pins, err := filepath.Glob(filepath.Join(b.config.Kernel.PinDirectory, "*", "links", "*"))
	b.must(err)
	for _, pin := range pins {
		l, err := link.LoadPinnedLink(pin, nil)
		b.must(err)
		info, err := l.Info()
		b.must(errors.Join(err, l.Close()))
		ids = append(ids, info.Program)
	}
	if len(ids) < 10 {
		b.Fatalf("only %d programs are pinned: %v", len(ids), pins)
	}
	return ids
}

// isGone has an error while the program is in the kernel.
func isGone(id ebpf.ProgramID) error {
	p, err := ebpf.NewProgramFromID(id)
	if err == nil {
		return errors.Join(errors.New("it is there"), p.Close())
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
