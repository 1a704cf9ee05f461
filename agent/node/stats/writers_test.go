package stats

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/bpf/bpftest"
	"github.com/ebb-agent/ebb/runtime/cgroup"
	"github.com/ebb-agent/ebb/runtime/cgroup/cgrouptest"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// fakeWriters are attached.
type fakeWriters struct{ bpftest.FakeWriters }

func (*fakeWriters) Status() []bpf.ProgramStatus { return nil }

var (
	idOne = strings.Repeat("a1", 32)
	idTwo = strings.Repeat("b2", 32)
)

// kubeWriters is what the tests below read: two containers, one of which the
// kubelet restarted, one of a person, and services of the host.
func kubeWriters(top int, more ...bpf.Writer) (*Writers, *fakeWriters) {
	k := new(fakeWriters)
	k.SetWriters(append([]bpf.Writer{
		{Cgroup: 1, Grown: 9000, Shrunk: 100},
		{Cgroup: 10, Grown: 500, Shrunk: 200, Made: 3, Removed: 1},
		{Cgroup: 11, Grown: 50, EndedNS: 7, Path: "/kubepods/pod1/" + idTwo},
		{Cgroup: 12, Grown: 70, Shrunk: 80},
		{Cgroup: 13, Grown: 30},
		{Cgroup: 14, Grown: 5, EndedNS: 9, Path: "/system.slice/run-1.scope"},
		{Cgroup: 15, Grown: 1},
	}, more...)...)
	w := NewWriters(prometheus.NewRegistry(), k, "", cgrouptest.Paths{
		1: "/", 10: "/kubepods/pod1/" + idOne, 12: "/default/t1", 13: "/default/t1/sub",
	}, top, clock.System(), condition.NewSet(slog.New(slog.DiscardHandler)))
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
	w, k := kubeWriters(10, bpf.Writer{Cgroup: 16, EndedNS: 20, Path: "/kubepods/pod2/" + strings.Repeat("c", 64)})
	before := func(ns uint64) bool { return ns < 15 }
	if err := w.forget(w.containers.Load(), before); err != nil {
		t.Fatal(err)
	}
	left, err := k.Writers()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range left {
		if one.Cgroup == 14 {
			t.Error("a service that ended is kept")
		}
	}
	if len(left) != 7 {
		t.Errorf("left are %v; a stopped container, and one that came after the list, must stay", left)
	}
}
