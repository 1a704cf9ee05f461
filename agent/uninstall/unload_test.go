package uninstall

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func (s *sim) options() UnloadOptions {
	return UnloadOptions{Config: s.config(), Namespace: "ebb", Image: "ebb:v1", Sweep: "of=ebb", Progress: io.Discard}
}

// wantNothing looks for what an unload must not leave.
func (s *sim) wantNothing(t *testing.T) {
	t.Helper()
	if s.set != "" || len(s.pods) > 0 || s.history || len(s.strays) > 0 {
		t.Errorf("left: DaemonSet %.40q, %d pods, history %v, agents %q", s.set, len(s.pods), s.history, s.strays)
	}
}

// TestManyNodes: of a thousand nodes ten are down, and one vanishes. What is asked of the
// API server is bounded, and so is the time.
func TestManyNodes(t *testing.T) {
	for nodes, most := range map[int]int{1000: 150, 5000: 300} {
		synctest.Test(t, func(t *testing.T) {
			behaves := map[int]int{500: vanishes}
			for n := range 10 {
				behaves[n*97+3] = dead
			}
			s := newSim(nodes, behaves)
			s.takes = 40 * time.Second
			var progress bytes.Buffer
			o := s.options()
			o.Progress = &progress
			done, err := Unload(t.Context(), o)
			took := time.Since(s.begun)
			if err != nil || done.Clean != nodes-11 || len(done.Nodes) != 10 || len(done.Left) > 0 || done.AllClean() {
				t.Errorf("%v: %+v", err, done)
			}
			for _, n := range done.Nodes {
				if n.Result != NotInTime || n.Says != "the kubelet there has not started the pod: is the node down?" {
					t.Errorf("%+v", n)
				}
			}
			if want := "ebb uninstall unload --namespace ebb --image ebb:v1 --node node-0003,node-0100,node-0197,"; len(done.Later) != 3 || !strings.HasPrefix(done.Later[0], want) {
				t.Errorf("%q", done.Later)
			}
			if want := fmt.Sprintf("\n%d of %d nodes are clean after ", nodes-11, nodes); !strings.Contains(progress.String(), want) || strings.Count(progress.String(), "\n") > 50 {
				t.Errorf("it does not count:\n%s", progress.String())
			}
			if len(s.asked) > most || took > 4*time.Minute {
				t.Errorf("%d requests in %s", len(s.asked), took)
			}
			t.Logf("%d nodes, 10 of them down: %d requests, %s", nodes, len(s.asked), took)
			s.wantNothing(t)
		})
	}
}

// TestSlow: a node that works is waited for, but not for ever.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(3, map[int]int{1: slow})
		done, err := Unload(t.Context(), s.options())
		if took := time.Since(s.begun); err != nil || took < 5*time.Minute || took > 6*time.Minute || done.Clean != 2 ||
			fmt.Sprint(done.Nodes) != "[{node-0001 not in time it runs}]" || done.Failed() {
			t.Errorf("%v in %s: %+v", err, took, done)
		}
		s.wantNothing(t)
	})
}

// TestLate: a Node that comes, perhaps back, in the middle is not forgotten.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(3, map[int]int{1: slow, 2: late})
		done, err := Unload(t.Context(), s.options())
		if err != nil || done.Clean != 2 || len(done.Nodes) != 1 {
			t.Errorf("%v: %+v", err, done)
		}
	})
}

// TestFails: a node that has failed a few times is not waited for any longer.
func TestFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(3, map[int]int{2: fails})
		done, err := Unload(t.Context(), s.options())
		if took := time.Since(s.begun); err != nil || took > time.Minute || done.Clean != 2 ||
			fmt.Sprint(done.Nodes, done.Swept) != "[{node-0002 failed the pins are not ebb's}] [Pod ebb-agent-x]" || !done.Failed() {
			t.Errorf("%v in %s: %+v", err, took, done)
		}
		s.wantNothing(t)
	})
}

// TestNoPods: if no pods are created, the reason is reported at once.
func TestNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(2, nil)
		s.json("/api/v1/namespaces/ebb/events", page("", `{"message":"an older reason"}`, `{"message":"pods are forbidden:\nno quota"}`))
		s.json("/api/v1/namespaces/ebb/pods", page(""))
		done, err := Unload(t.Context(), s.options())
		if took := time.Since(s.begun); err != nil || took > time.Minute || len(done.Nodes) != 2 || done.Nodes[1].Says != "pods are forbidden: no quota" {
			t.Errorf("%v in %s: %+v", err, took, done)
		}
	})
}

// TestAgentStays: an agent's pod that does not go is named, also if its node is clean.
func TestAgentStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(2, nil)
		s.strays = append(s.strays, "of-a-dead-node")
		done, err := Unload(t.Context(), s.options())
		if took := time.Since(s.begun); err != nil || took > time.Minute || done.Clean != 2 || done.AllClean() || done.Failed() ||
			fmt.Sprint(done.Left) != "[pod of-a-dead-node is still there: is its node down?]" {
			t.Errorf("%v in %s: %+v", err, took, done)
		}
		s.strays = nil
		s.wantNothing(t)
	})
}

// TestRefused: what may not be deleted is left, and reported as left.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(1, nil)
		s.strays = nil
		s.server.on("/apis/coordination.k8s.io/v1/namespaces/ebb/leases/ebb-controller", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusForbidden, "may not") })
		o := s.options()
		o.Leases = []string{"ebb-controller"}
		if done, err := Unload(t.Context(), o); err != nil || done.Clean != 1 || len(done.Left) != 1 || !done.Failed() {
			t.Errorf("%v: %+v", err, done)
		}
		s.wantNothing(t)
	})
}

// TestInterrupted: whichever request is the last of a run, the next run ends it. It unloads no node
// again, unless the DaemonSet was deleted already.
func TestInterrupted(t *testing.T) {
	for at := 1; ; at++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			s := newSim(2, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.on = func(n int) int {
				if n == at {
					cancel()
				}
				return 0
			}
			_, err := Unload(ctx, s.options())
			want := 2
			if err != nil && s.made == 2 && s.set == "" {
				want = 4
			}
			if over = len(s.asked) < at; over {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err != nil {
				done, err := Unload(t.Context(), s.options())
				if err != nil || !done.AllClean() || done.Clean != 2 {
					t.Errorf("after %d requests: %v: %+v", at, err, done)
				}
			}
			if s.made != want {
				t.Errorf("after %d requests: %d pods were made, want %d", at, s.made, want)
			}
			s.wantNothing(t)
		})
		if over {
			t.Logf("interrupted at each of %d requests", at-1)
			return
		}
	}
}

// TestNodesThatAreGone: of the nodes that an earlier run has named, some were deleted since.
func TestNodesThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(2, nil)
		var progress bytes.Buffer
		o := s.options()
		o.Nodes, o.Progress = []string{"gone", "node-0001"}, &progress
		if done, err := Unload(t.Context(), o); err != nil || !done.AllClean() || done.Clean != 1 || s.made != 1 || !strings.Contains(progress.String(), `there is no node "gone"`) {
			t.Errorf("%v: %+v, %d pods were made\n%s", err, done, s.made, progress.String())
		}
		s.wantNothing(t)
	})
}

// TestFaults: whichever request is answered with an error that passes, nothing is lost.
func TestFaults(t *testing.T) {
	for at := 1; ; at++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			s := newSim(2, map[int]int{1: dead})
			s.on = func(n int) int {
				if n == at {
					return http.StatusServiceUnavailable
				}
				return 0
			}
			done, err := Unload(t.Context(), s.options())
			over = len(s.asked) < at
			if err != nil || done.Clean != 1 || len(done.Nodes) != 1 || len(done.Left) > 0 {
				t.Errorf("request %d: %v: %+v", at, err, done)
			}
			s.wantNothing(t)
		})
		if over {
			return
		}
	}
}

// TestGoesOn: a run goes on with what was done a moment ago with the same template; one
// that is older, or was made of another template, is begun anew on each node.
func TestGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		later time.Duration
		image string
		same  bool
	}{
		"at once":       {time.Second, "ebb:v1", true},
		"an hour later": {time.Hour, "ebb:v1", false},
		"another image": {time.Second, "ebb:v2", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(2, map[int]int{1: slow})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if _, err := Unload(ctx, s.options()); err == nil || !strings.Contains(err.Error(), "interrupted: 1 of 2 nodes are clean, and DaemonSet ebb-unload continues; run this again") || s.set == "" {
					t.Fatal(err)
				}
				before := s.pods[0].name
				time.Sleep(c.later)
				s.behaves["node-0001"] = works
				s.pods[1].behaves = works
				var progress bytes.Buffer
				o := s.options()
				o.Image, o.Progress = c.image, &progress
				var after string
				s.on = func(int) int {
					if len(s.pods) > 0 {
						after = s.pods[0].name
					}
					return 0
				}
				if done, err := Unload(t.Context(), o); err != nil || done.Clean != 2 || !done.AllClean() {
					t.Errorf("%v: %+v", err, done)
				}
				if same := before == after; same != c.same || strings.Contains(progress.String(), "resuming") != c.same {
					t.Errorf("pod %s, then %s: %s", before, after, progress.String())
				}
				s.wantNothing(t)
			})
		})
	}
}

// TestInstalled: what is still wanted is not taken away.
func TestInstalled(t *testing.T) {
	s := newSim(1, nil)
	s.json("/apis/apps/v1/namespaces/ebb/daemonsets", page("", `{"metadata":{"name":"ebb-agent","uid":"1","resourceVersion":"5","namespace":"ebb"}}`))
	_, err := Unload(t.Context(), s.options())
	if err == nil || !strings.Contains(err.Error(), "ebb is still installed: DaemonSet ebb-agent is there") || s.made > 0 || len(s.strays) != 1 {
		t.Error(err)
	}
	o := s.options()
	o.Nodes = []string{"nobody"}
	if _, err := Unload(t.Context(), o); err == nil || err.Error() != `--node: there is no node "nobody"` {
		t.Error(err)
	}
}
