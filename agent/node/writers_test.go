package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/cgroup"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// fakeCgroups are living cgroups by id.
type fakeCgroups map[uint64]string

func (f fakeCgroups) Path(id uint64) (string, error) {
	if path, ok := f[id]; ok {
		return path, nil
	}
	return "", fs.ErrNotExist
}

var (
	idOne = strings.Repeat("a1", 32)
	idTwo = strings.Repeat("b2", 32)
)

// kubeWriters is what the tests below read: two containers, one of which the
// kubelet restarted, one of a person, and services of the host.
func kubeWriters(top int) (*writers, *fakeKernel) {
	k := newFakeKernel()
	k.writers = []bpf.Writer{
		{Cgroup: 1, Grown: 9000, Shrunk: 100},
		{Cgroup: 10, Grown: 500, Shrunk: 200, Made: 3, Removed: 1},
		{Cgroup: 11, Grown: 50, EndedNS: 7, Path: "/kubepods/pod1/" + idTwo},
		{Cgroup: 12, Grown: 70, Shrunk: 80},
		{Cgroup: 13, Grown: 30},
		{Cgroup: 14, Grown: 5, EndedNS: 9, Path: "/system.slice/run-1.scope"},
		{Cgroup: 15, Grown: 1},
	}
	w := newWriters(k, fakeCgroups{
		1: "/", 10: "/kubepods/pod1/" + idOne, 12: "/default/t1", 13: "/default/t1/sub",
	}, top)
	w.containers.Store(cgroup.NewContainers([]inventory.Container{
		{Namespace: "k8s.io", ID: idOne, Pod: inventory.Pod{Namespace: "shop", Name: "web-0", Container: "web"}},
		{Namespace: "k8s.io", ID: idTwo, Pod: inventory.Pod{Namespace: "shop", Name: "web-0", Container: "web"}},
		{Namespace: "default", ID: "t1"},
	}))
	return w, k
}

func TestWritersAreNamed(t *testing.T) {
	w, _ := kubeWriters(10)
	got, err := w.read()
	if err != nil {
		t.Fatal(err)
	}
	want := []Writer{
		{Cgroup: "/", NetBytes: 8900, GrownBytes: 9000, ShrunkBytes: 100},
		{Namespace: "shop", Pod: "web-0", Container: "web", ID: idOne, Cgroup: "/kubepods/pod1/" + idOne,
			NetBytes: 300, GrownBytes: 500, ShrunkBytes: 200, InodesMade: 3, InodesRemoved: 1},
		{Namespace: "shop", Pod: "web-0", Container: "web", ID: idTwo, Cgroup: "/kubepods/pod1/" + idTwo,
			NetBytes: 50, GrownBytes: 50, Ended: true},
		{Container: "default/t1", ID: "t1", Cgroup: "/default/t1", NetBytes: 20, GrownBytes: 100, ShrunkBytes: 80},
		{Cgroup: "/system.slice/run-1.scope", NetBytes: 5, GrownBytes: 5, Ended: true},
		{NetBytes: 1, GrownBytes: 1}, // nobody knows where it is
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writers (-want +got):\n%s", diff)
	}
}

func TestTopSumsRestartsAndLeavesTheHostOut(t *testing.T) {
	w, _ := kubeWriters(1)
	list, err := w.read()
	if err != nil {
		t.Fatal(err)
	}
	want := []Writer{
		{Namespace: "shop", Pod: "web-0", Container: "web", NetBytes: 350, GrownBytes: 550, ShrunkBytes: 200},
		{Container: "default/t1", NetBytes: 20, GrownBytes: 100, ShrunkBytes: 80},
	}
	for n := range 4 {
		if diff := cmp.Diff(want[:min(n, 2)], topByName(list, n)); diff != "" {
			t.Errorf("top %d (-want +got):\n%s", n, diff)
		}
	}
}

// Whatever names there are, the registry can be read, has no more series than
// allowed, and no name twice.
func TestLabelsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 3, 3)
		names := rapid.SliceOf(raw).Draw(t, "names")
		top := rapid.IntRange(0, 5).Draw(t, "top")
		var list []Writer
		for i, n := range names {
			list = append(list, Writer{
				ID: "x", Namespace: string(n[0]), Pod: string(n[1]), Container: string(n[2]) + strings.Repeat("y", i*100), NetBytes: int64(i),
			})
		}
		seen := map[string]bool{}
		got := topByName(list, top)
		if len(got) > top {
			t.Fatalf("%d series", len(got))
		}
		for _, w := range got {
			for _, l := range []string{w.Namespace, w.Pod, w.Container} {
				if !utf8.ValidString(l) || len(l) > maxLabel || strings.ContainsAny(l, "\n\x00") {
					t.Fatalf("label %q", l)
				}
			}
			key := fmt.Sprintf("%q %q %q", w.Namespace, w.Pod, w.Container)
			if seen[key] {
				t.Fatalf("twice: %s", key)
			}
			seen[key] = true
		}
	})
}

func TestForgetKeepsWhatMayStillBeAsked(t *testing.T) {
	w, k := kubeWriters(10)
	k.writers = append(k.writers, bpf.Writer{Cgroup: 16, EndedNS: 20, Path: "/kubepods/pod2/" + strings.Repeat("c", 64)})
	before := func(ns uint64) bool { return ns < 15 }
	if err := w.forget(w.containers.Load(), before); err != nil {
		t.Fatal(err)
	}
	for _, one := range k.writers {
		if one.Cgroup == 14 {
			t.Error("a service that ended is kept")
		}
	}
	if len(k.writers) != 7 {
		t.Errorf("left are %v; a stopped container, and one that came after the list, must stay", k.writers)
	}
}

func TestWritersOfANode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cgroups = fakeCgroups{5: "/" + fake.CRINamespace + "/c-app"}
		w.add("app", 10)
		w.rt.Run(fake.CRINamespace, "c-app", "app")
		w.kernel.writers = []bpf.Writer{{Cgroup: 5, Grown: 4096}, {Cgroup: 6, Grown: 1, EndedNS: 1, Path: "/gone"}}
		w.up()
		if len(w.kernel.counted) != 1 || w.kernel.counted[0] != fakeDev {
			t.Errorf("counted are %v", w.kernel.counted)
		}
		e := w.agent.explainWriters()
		if len(e.Writers) != 1 || e.Writers[0].Container != fake.CRINamespace+"/c-app" || !e.Containers || e.Unknown != "" {
			t.Errorf("writers are %+v", e)
		}
		if got := w.metric("ebb_node_container_growth_bytes", fake.CRINamespace+"/c-app"); got != 4096 {
			t.Errorf("growth is %g", got)
		}
		// It stops: what it wrote is there until it is deleted.
		w.kernel.end(5, uint64(w.sinceBoot()), "/"+fake.CRINamespace+"/c-app")
		w.pass(time.Hour)
		if got := w.metric("ebb_node_container_growth_bytes", fake.CRINamespace+"/c-app"); got != 4096 {
			t.Errorf("growth after the end is %g", got)
		}
		w.rt.Stop(fake.CRINamespace, "c-app")
		w.rt.Delete(fake.CRINamespace, "c-app")
		w.pass(time.Hour)
		if len(w.kernel.writers) != 0 {
			t.Errorf("still counted: %v", w.kernel.writers)
		}
	})
}

func (k *fakeKernel) end(id, ns uint64, path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.writers {
		if k.writers[i].Cgroup == id {
			k.writers[i].EndedNS, k.writers[i].Path = ns, path
		}
	}
}

func TestWritersSwitchedOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Writers.Top = 0
		w.kernel.counted = []uint64{1}
		w.kernel.writers = []bpf.Writer{{Cgroup: 5, Grown: 4096}}
		w.up()
		if len(w.kernel.counted) != 0 {
			t.Errorf("still counted: %v", w.kernel.counted)
		}
		if e := w.agent.explainWriters(); e.Unknown == "" || len(e.Writers) != 0 {
			t.Errorf("writers are %+v", e)
		}
	})
}

// Nothing is ever said to be whole where nothing is counted.
func TestWritersOfAFilesystemThatDoesNotCount(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.kind = "zfs"
		w.up()
		if e := w.agent.explainWriters(); e.Unknown != "writers on zfs are not counted" {
			t.Errorf("writers are %+v", e)
		}
	})
}

func TestWritersThatCannotBeRead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.failWriters = errors.New("no memory")
		w.up()
		w.wantLogged(1, "who fills the disk is not known", "no memory")
		if n := w.metric("ebb_node_kernel_counts_readable", "writers"); n != 0 {
			t.Error("the scrape says that they can be read")
		}
		w.kernel.mu.Lock()
		w.kernel.failWriters = fmt.Errorf("writers: %w", bpf.ErrNotAttached)
		w.kernel.mu.Unlock()
		if _, err := w.agent.metrics.Registry.Gather(); err != nil {
			t.Errorf("programs that are not there fail the scrape: %v", err)
		}
		if e := w.agent.explainWriters(); !strings.Contains(e.Unknown, "not attached") {
			t.Errorf("writers are %+v", e)
		}
	})
	inWorld(t, func(w *world) {
		w.kernel = nil
		w.up()
		if e := w.agent.explainWriters(); e.Unknown != bpf.ErrUnsupported.Error() {
			t.Errorf("writers are %+v", e)
		}
	})
}

func TestWritersAreServed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cgroups = fakeCgroups{5: "/a\"b\xff</script>"}
		w.kernel.writers = []bpf.Writer{{Cgroup: 5, Grown: 1, Shrunk: 4}}
		w.up()
		answer := httptest.NewRecorder()
		w.agent.whoWrites(answer, nil)
		var e WritersExplanation
		if err := json.Unmarshal(answer.Body.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if len(e.Writers) != 1 || e.Writers[0].NetBytes != -3 || strings.Contains(answer.Body.String(), "</script>") {
			t.Errorf("served is %s", answer.Body)
		}
	})
}
