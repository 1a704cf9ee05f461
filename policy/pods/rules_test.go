package pods_test

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/pods"
)

var ready, lost, out = pods.Node{Ready: true}, pods.Node{}, pods.Node{OutOfService: true}

// TestPeerRules has what the kube-controller-manager's pod collector does, case by case
// (pkg/controller/podgc, 1.36): of each Pod whether it goes, and whether it is marked as
// failed first.
func TestPeerRules(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		keep   int
		nodes  map[string]pods.Node
		before func(*cluster)
		during func(*cluster) // after the quarantine has begun
		passes time.Duration
		want   []string
	}{
		"too many: the oldest": {
			keep:   1,
			nodes:  map[string]pods.Node{"n": ready},
			before: func(w *cluster) { w.add("a", "n", "Failed"); w.add("b", "n", "Succeeded"); w.add("c", "n", "Failed") },
			want:   []string{"delete a over_limit", "delete b over_limit"},
		},
		"no limit": {
			keep:   -1,
			nodes:  map[string]pods.Node{"n": ready},
			before: func(w *cluster) { w.add("a", "n", "Failed"); w.add("b", "n", "Succeeded") },
		},
		"what runs is not counted": {
			keep:   1,
			nodes:  map[string]pods.Node{"n": ready},
			before: func(w *cluster) { w.add("a", "n", "Running"); w.add("b", "n", "Succeeded"); w.add("c", "n", "Failed") },
			want:   []string{"delete b over_limit"},
		},
		"as many as are kept": {
			keep:   5,
			nodes:  map[string]pods.Node{"n": ready},
			before: func(w *cluster) { w.add("a", "n", "Failed"); w.add("b", "n", "Succeeded") },
		},
		"evicted ones first": {
			keep:  1,
			nodes: map[string]pods.Node{"n": ready},
			before: func(w *cluster) {
				w.add("a", "n", "Failed")
				w.add("b", "n", "Succeeded")
				w.add("c", "n", "Failed").Evicted = true
			},
			want: []string{"delete c over_limit", "delete a over_limit"},
		},
		"created at once: by name": {
			keep:  1,
			nodes: map[string]pods.Node{"n": ready},
			before: func(w *cluster) {
				w.add("b", "n", "Failed").Created = noon
				w.add("a", "n", "Failed").Created = noon
			},
			want: []string{"delete a over_limit"},
		},
		"nodes are there": {
			nodes:  map[string]pods.Node{"n": ready, "m": lost},
			before: func(w *cluster) { w.add("a", "n", "Running"); w.add("b", "m", "Running"); w.add("c", "m", "Failed") },
		},
		"a node is gone": {
			before: func(w *cluster) {
				w.add("a", "n", "Failed")
				w.add("b", "n", "Succeeded")
				w.add("c", "n", "Running")
				w.add("d", "n", "Pending")
				w.add("e", "n", "Unknown")
			},
			want: []string{"delete a node_gone", "delete b node_gone", "fail-pod c node_gone", "delete c node_gone",
				"fail-pod d node_gone", "delete d node_gone", "fail-pod e node_gone", "delete e node_gone"},
		},
		"only what is bound to it": {
			nodes:  map[string]pods.Node{"n": ready},
			before: func(w *cluster) { w.add("a", "gone", "Failed"); w.add("b", "n", "Failed"); w.add("c", "", "Pending") },
			want:   []string{"delete a node_gone"},
		},
		"quarantine is not over": {
			before: func(w *cluster) { w.add("a", "n", "Failed") },
			passes: 39 * time.Second,
		},
		"the live read finds the node": {
			before: func(w *cluster) { w.add("a", "n", "Running") },
			during: func(w *cluster) { w.nodes["n"] = ready },
		},
		"the watch finds the node": {
			before: func(w *cluster) { w.add("a", "n", "Failed") },
			during: func(w *cluster) { w.node("n", ready) },
		},
		"the node goes in the meantime": {
			nodes:  map[string]pods.Node{"n": ready},
			before: func(w *cluster) { w.add("a", "n", "Failed") },
			during: func(w *cluster) { w.loseNode("n") },
			passes: day,
			want:   []string{"delete a node_gone"},
		},
		"terminating, never scheduled": {
			before: func(w *cluster) {
				w.add("a", "", "Failed").Terminating = true
				w.add("b", "", "Succeeded").Terminating = true
				w.add("c", "", "Running").Terminating = true
				w.add("d", "", "Pending")
			},
			want: []string{"delete a terminating_never_scheduled", "delete b terminating_never_scheduled",
				"fail-pod c terminating_never_scheduled", "delete c terminating_never_scheduled"},
		},
		"terminating on a node": {
			nodes: map[string]pods.Node{"ready": ready, "lost": lost, "out": out, "both": {Ready: true, OutOfService: true}},
			before: func(w *cluster) {
				for _, node := range []string{"ready", "lost", "both"} {
					w.add("on-"+node, node, "Running").Terminating = true
				}
				w.add("a", "out", "Running").Terminating = true
				w.add("b", "out", "Succeeded").Terminating = true
				w.add("c", "out", "Running")
			},
			want: []string{"fail-pod a node_out_of_service", "delete a node_out_of_service", "delete b node_out_of_service"},
		},
		"a node becomes out of service": {
			nodes:  map[string]pods.Node{"n": lost},
			before: func(w *cluster) { w.add("a", "n", "Failed").Terminating = true },
			during: func(w *cluster) { w.node("n", out) },
			want:   []string{"delete a node_out_of_service"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, pods.Config{Keep: test.keep})
			for name, n := range test.nodes {
				w.nodes[name] = n
			}
			test.before(w)
			w.list()
			w.pass(time.Second)
			if test.during != nil {
				test.during(w)
			}
			if test.passes == 0 {
				test.passes = time.Hour
			}
			w.pass(test.passes - time.Second)
			w.want(test.want...)
		})
	}
}

// TestVanishing: a Pod that was just observed as deleted without grace, and that nothing
// holds, is left to the API server, which removes it next; if it stays, it is asked for.
func TestVanishing(t *testing.T) {
	w := newCluster(t, pods.Config{Keep: -1})
	p := w.add("p", "", "Succeeded")
	w.list()
	w.pass(time.Minute)
	p.Terminating, p.NoGrace = true, true
	w.see(p)
	w.pass(29 * time.Second)
	if len(w.asked) > 0 {
		t.Fatalf("asked for: %q", w.asked)
	}
	w.pass(2 * time.Second)
	if len(w.asked) != 1 {
		t.Fatalf("asked for: %q", w.asked)
	}
}
