package pods_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/policy/pods"
)

// TestNodesUnread: what was not listed, or cannot be read, is not gone.
func TestNodesUnread(t *testing.T) {
	w := newCluster(t, pods.Config{})
	w.add("a", "n", "Running")
	w.listPods()
	w.pass(time.Hour)
	w.wantReason("a", pods.NodesUnread)
	w.listNodes()
	w.pass(30 * time.Second)
	w.wantReason("a", pods.NodeMissing)
	w.c.Unreadable(w.now, nodeType)
	w.pass(time.Hour)
	w.wantReason("a", pods.NodesUnread)
	w.want()
	w.listNodes()
	w.pass(39 * time.Second) // the quarantine begins anew
	w.want()
	w.c.Listing(w.now, nodeType)
	w.pass(time.Hour)
	w.want()
	w.c.Synced(w.now, nodeType)
	w.pass(41 * time.Second)
	w.want("fail-pod a node_gone", "delete a node_gone")
	if w.reads != 1 {
		t.Errorf("%d reads", w.reads)
	}
}

// TestLiveReadUnknown: an answer without a result is no absence.
func TestLiveReadUnknown(t *testing.T) {
	w := newCluster(t, pods.Config{})
	w.add("a", "n", "Running")
	w.list()
	w.unknown = true
	w.pass(time.Hour)
	w.want()
	if w.reads < 5 || w.reads > 40 {
		t.Errorf("%d reads in an hour", w.reads)
	}
	w.node("n", ready)
	w.loseNode("n")
	w.unknown = false // and its failures are another's
	w.pass(39 * time.Second)
	w.want()
	w.pass(time.Second)
	w.want("fail-pod a node_gone", "delete a node_gone")
}

// TestOneReadForANode: however many Pods it had.
func TestOneReadForANode(t *testing.T) {
	w := newCluster(t, pods.Config{})
	for i := range 500 {
		w.add(fmt.Sprint("p", i), "n", "Failed")
	}
	w.list()
	w.pass(time.Hour)
	if len(w.pods) != 0 || w.reads != 1 {
		t.Errorf("%d Pods are left after %d reads", len(w.pods), w.reads)
	}
}

// TestAnswerHoldsForAWhile: what waits longer than that is read again, and a Node that
// came again has its Pods stay.
func TestAnswerHoldsForAWhile(t *testing.T) {
	w := newCluster(t, pods.Config{})
	w.add("a", "n", "Failed")
	w.refuse["a"] = gc.Forbidden
	w.list()
	w.pass(41 * time.Second)
	w.want("delete a node_gone")
	w.nodes["n"] = ready // and no watch reports it
	reads := w.reads
	w.pass(20 * time.Second)
	if w.want("delete a node_gone"); w.reads != reads {
		t.Errorf("read again at once: %d", w.reads-reads)
	}
	w.pass(time.Hour)
	if w.reads == reads || len(w.asked) > 1 {
		t.Errorf("%d reads, asked for %q", w.reads-reads, w.asked)
	}
	w.wantReason("a", pods.NodeMissing)
}

// TestPodCameLater: a Pod that is seen on a Node that was read to be absent may be of
// the Node's next life.
func TestPodCameLater(t *testing.T) {
	w := newCluster(t, pods.Config{})
	w.add("a", "n", "Failed")
	w.refuse["a"] = gc.Forbidden
	w.list()
	w.pass(41 * time.Second)
	w.want("delete a node_gone")
	w.nodes["n"] = ready // its watch is late
	w.see(w.add("b", "n", "Running"))
	w.pass(time.Hour)
	w.wantReason("a", pods.NodeMissing)
	w.wantReason("b", pods.NodeMissing)
	w.want("delete a node_gone") // which the first answer was about
}

// TestPodsKeepComing: those that are bound to a Node that is gone, one after the other,
// keep nobody else's from going.
func TestPodsKeepComing(t *testing.T) {
	w := newCluster(t, pods.Config{})
	w.add("a", "n", "Failed")
	w.list()
	for i := range 30 {
		w.see(w.add(fmt.Sprint("b", i), "n", "Failed"))
		w.pass(10 * time.Second)
	}
	if len(w.pods) > 4 || w.reads > 9 {
		t.Errorf("%d Pods are left after %d reads", len(w.pods), w.reads)
	}
	w.pass(time.Minute)
	if len(w.pods) > 0 {
		t.Errorf("%d Pods are left", len(w.pods))
	}
}

// TestAnswerFromBefore: a read that was sent before the Pod was bound proves nothing for it.
func TestAnswerFromBefore(t *testing.T) {
	w := newCluster(t, pods.Config{})
	w.add("a", "n", "Running")
	w.list()
	w.now = w.now.Add(time.Minute)
	read := w.c.Ready(w.now, 9)
	if len(read) != 1 || read[0].Verb != gc.Verify || read[0].Object.Name != "n" {
		t.Fatalf("asked for %+v", read)
	}
	sent := w.now
	w.now = w.now.Add(time.Second)
	w.nodes["n"] = ready
	w.see(w.add("b", "n", "Running"))
	w.c.Answered(w.now, sent, read[0].ID, gc.Answer{State: gc.Absent})
	w.pass(time.Hour)
	w.want("fail-pod a node_gone", "delete a node_gone")
	w.wantReason("b", pods.NodeMissing)
}

// TestTooManyLost: beyond a share nothing goes, and nothing is read, until fewer are.
func TestTooManyLost(t *testing.T) {
	w := newCluster(t, pods.Config{})
	for i := range 10 {
		w.nodes[fmt.Sprint("n", i)] = ready
		w.add(fmt.Sprint("p", i), fmt.Sprint("n", i), "Running")
	}
	w.list()
	for i := range 5 {
		w.loseNode(fmt.Sprint("n", i))
	}
	w.pass(time.Hour)
	w.want()
	w.wantReason("p0", pods.TooManyLost)
	w.wantReason("p9", pods.Running)
	if f, ok := w.c.Explain(gc.Coordinates{Kind: "Node", Name: "n0"}); !ok || f.Reason != pods.TooManyLost || w.reads != 0 {
		t.Errorf("n0: %+v, %v, after %d reads", f, ok, w.reads)
	}
	held := func() int { return w.c.Counts(w.now)[pods.TooManyLost] }
	if n := held(); n != 5 {
		t.Errorf("%d Pods are reported as held, not 5", n)
	}
	w.node("n3", ready)
	w.node("n4", ready)
	w.pass(time.Second)
	if n := held(); n != 0 {
		t.Errorf("%d Pods are still reported as held", n)
	}
	w.want("fail-pod p0 node_gone", "delete p0 node_gone", "fail-pod p1 node_gone", "delete p1 node_gone", "fail-pod p2 node_gone", "delete p2 node_gone")

	w = newCluster(t, pods.Config{}) // one always may
	w.add("a", "only", "Succeeded")
	w.list()
	w.pass(time.Minute)
	w.want("delete a node_gone")

	w = newCluster(t, pods.Config{MaxShare: 1})
	for i := range 10 {
		w.add(fmt.Sprint("p", i), fmt.Sprint("n", i), "Failed")
	}
	w.list()
	w.pass(time.Minute)
	if len(w.pods) > 0 {
		t.Errorf("%d Pods are left", len(w.pods))
	}
}

// TestFewerLostAgain: what was found to be absent before too many were goes on.
func TestFewerLostAgain(t *testing.T) {
	w := newCluster(t, pods.Config{MaxShare: 0.2})
	for i := range 4 {
		w.nodes[fmt.Sprint("n", i)] = ready
		w.add(fmt.Sprint("p", i), fmt.Sprint("n", i), "Failed")
	}
	w.list()
	w.loseNode("n0")
	w.refuse["p0"] = gc.TooMany
	w.pass(40 * time.Second)
	w.want("delete p0 node_gone")
	w.loseNode("n1")
	w.pass(20 * time.Second)
	w.want()
	w.wantReason("p0", pods.TooManyLost)
	w.node("n1", ready)
	w.run()
	w.want("delete p0 node_gone")
	if w.reads != 1 {
		t.Errorf("%d reads", w.reads)
	}
}

// fullCluster is one of so many Nodes, each with a Pod that failed.
func fullCluster(t *testing.T, n int, config pods.Config) *cluster {
	w := newCluster(t, config)
	for i := range n {
		w.nodes[fmt.Sprint("n", i)] = ready
		w.add(fmt.Sprint("p", i), fmt.Sprint("n", i), "Failed")
	}
	w.list()
	return w
}

func (w *cluster) loseNodes(from, to int) {
	for i := from; i < to; i++ {
		w.loseNode(fmt.Sprint("n", i))
	}
}

// TestUndeletablePods: Pods that nobody may delete stay on Nodes that went weeks ago, and keep no
// others: neither those of excluded namespaces, nor those that an admission webhook refuses. Those
// that are excluded are not counted beside the ones that ended, either.
func TestUndeletablePods(t *testing.T) {
	for name, config := range map[string]pods.Config{"excluded": {Excluded: gc.Patterns{"kube-system"}, Keep: 1}, "refused": {}} {
		t.Run(name, func(t *testing.T) {
			w := fullCluster(t, 10, config)
			for i := range 8 {
				agent := w.add(fmt.Sprint("agent", i), fmt.Sprint("n", i), "Running")
				agent.Namespace = "kube-system"
				if name == "refused" {
					w.refuse[agent.Name] = gc.Forbidden
				}
			}
			ended := w.add("ended", "n9", "Succeeded")
			ended.Namespace = "kube-system"
			w.list()
			for i := range 8 {
				w.loseNodes(i, i+1)
				w.pass(10 * time.Minute)
				if w.pods[fmt.Sprint("p", i)] != nil {
					t.Fatalf("p%d: %s", i, w.explain(fmt.Sprint("p", i)).Reason)
				}
			}
			if w.pods["p9"] == nil || w.pods["ended"] == nil {
				t.Error("a Pod of a Node that is there went")
			}
			if name == "refused" {
				w.asked, w.refuse["agent0"] = nil, gc.Failed // the webhook is gone
				w.pass(2 * time.Hour)
				if w.pods["agent0"] != nil {
					t.Errorf("it is not tried again; asked for %q", w.asked)
				}
			}
		})
	}
}

// TestRefusedPodsOfNodes: Nodes all of whose Pods are refused wait for no confirmation, until they were
// there again.
func TestRefusedPodsOfNodes(t *testing.T) {
	w := fullCluster(t, 10, pods.Config{})
	w.refuse["p0"] = gc.Forbidden
	w.loseNodes(0, 1)
	w.pass(time.Minute)
	w.asked = nil
	w.loseNodes(1, 6)
	w.pass(time.Second)
	if held := w.c.Held(); len(held) != 5 || held["n0"] != 0 {
		t.Errorf("held: %v", held)
	}
	w.node("n0", ready)
	w.loseNodes(0, 1)
	w.pass(time.Second)
	if held := w.c.Held(); len(held) != 6 || held["n0"] != 1 {
		t.Errorf("held: %v", held)
	}
	w.asked = nil
	w.pass(2 * time.Hour)
	w.want()
}

// TestUndeletablePodsAtANewLeader: Nodes that were gone before the controller began wait for a person, and no
// Node that is lost later waits with them.
func TestUndeletablePodsAtANewLeader(t *testing.T) {
	w := fullCluster(t, 10, pods.Config{})
	for i := range 8 {
		w.refuse[fmt.Sprint("p", i)] = gc.Forbidden
		w.loseNodes(i, i+1)
		w.pass(time.Minute)
	}
	w.c, w.asked = pods.New(pods.Config{}), nil
	w.list()
	w.pass(time.Minute)
	w.wantReason("p0", pods.TooManyLost)
	w.loseNodes(8, 9)
	w.pass(time.Minute)
	w.want("delete p8 node_gone")
}

// TestLostLater: Nodes that are lost long after too many others do not wait for those.
func TestLostLater(t *testing.T) {
	w := fullCluster(t, 10, pods.Config{})
	w.loseNodes(0, 5)
	w.pass(nodes.LostTogether)
	w.want()
	w.loseNodes(5, 6)
	w.pass(time.Second)
	w.wantReason("p5", pods.TooManyLost)
	w.pass(24 * time.Hour)
	w.want() // it was lost within the hour
	w.loseNodes(6, 7)
	w.pass(time.Minute)
	w.want("delete p6 node_gone")
	w.wantReason("p0", pods.TooManyLost)
	w.listNodes()
	w.loseNodes(7, 8)
	w.pass(time.Minute)
	w.want("delete p7 node_gone")
}

// TestConfirmLost: a person can confirm which Nodes are gone. That is forgotten when they come back.
func TestConfirmLost(t *testing.T) {
	w := fullCluster(t, 10, pods.Config{})
	w.loseNodes(0, 5)
	w.pass(time.Hour)
	w.want()
	if held := w.c.Held(); len(held) != 5 || held["n3"] != 1 {
		t.Errorf("held: %v", held)
	}
	if w.c.ConfirmLost(w.now, "n9") || w.c.ConfirmLost(w.now, "other") {
		t.Error("Nodes that nobody waits for are confirmed")
	}
	reads := w.reads
	if !w.c.ConfirmLost(w.now, "n1") {
		t.Error("n1 is not confirmed")
	}
	w.run()
	if w.want("delete p1 node_gone"); w.reads != reads+1 {
		t.Errorf("%d reads of a Node that is confirmed", w.reads-reads)
	}
	w.pass(time.Hour)
	w.want()
	w.wantReason("p0", pods.TooManyLost) // nobody has confirmed these
	w.node("n4", ready)
	w.pass(time.Minute)
	w.want("delete p0 node_gone", "delete p2 node_gone", "delete p3 node_gone")
	w = fullCluster(t, 10, pods.Config{})
	w.loseNodes(0, 6)
	w.nodes["n1"] = ready // and no watch reports it
	w.c.ConfirmLost(w.now, "n1")
	w.pass(time.Hour)
	w.want()
	w.node("n1", ready)
	w.loseNodes(1, 2)
	w.pass(time.Hour)
	w.wantReason("p1", pods.TooManyLost)
}

// TestNodesAreListedAnew while some are held: those that were confirmed count with the others.
func TestNodesAreListedAnew(t *testing.T) {
	w := fullCluster(t, 18, pods.Config{})
	w.loseNodes(0, 8)
	w.pass(time.Hour)
	for _, name := range []string{"n0", "n1", "n2"} {
		w.c.ConfirmLost(w.now, name)
	}
	w.pass(time.Minute)
	w.want("delete p0 node_gone", "delete p1 node_gone", "delete p2 node_gone")
	for range 2 {
		w.listNodes()
		w.pass(time.Hour)
		w.want()
		if held := w.c.Held(); len(held) != 5 {
			t.Errorf("held: %v, want five Nodes", held)
		}
	}
}

// TestOneZoneOfThree may be lost by default, whatever the number of Nodes.
func TestOneZoneOfThree(t *testing.T) {
	for n := 3; n <= 60; n++ {
		w := fullCluster(t, n, pods.Config{})
		w.loseNodes(0, (n+2)/3)
		w.pass(time.Minute)
		if left := len(w.pods); left != n-(n+2)/3 {
			t.Errorf("of %d Pods %d are left", n, left)
		}
	}
}

// TestHeldByFinalizers: a Pod that is terminating by force is not deleted again, whatever
// else of it changes (kubernetes#141190); but it is marked as failed, so that who holds it
// lets go.
func TestHeldByFinalizers(t *testing.T) {
	w := newCluster(t, pods.Config{})
	for _, name := range []string{"a", "b"} {
		w.add(name, map[string]string{"a": "n", "b": ""}[name], "Running").Finalizers = []string{"batch.kubernetes.io/job-tracking"}
	}
	b := w.pods["b"]
	b.Terminating, b.NoGrace = true, true
	w.list()
	w.pass(time.Hour)
	w.want("fail-pod a node_gone", "delete a node_gone", "fail-pod b terminating_never_scheduled")
	for range 5 {
		w.see(w.pods["a"])
		w.see(b)
		w.pass(time.Hour)
	}
	w.listPods()
	w.listNodes()
	w.pass(time.Hour)
	w.want()
	w.wantReason("a", pods.Held)
	w.wantReason("b", pods.Held)
	if w.reads != 1 {
		t.Errorf("%d reads", w.reads)
	}
	// Nobody waits for these Nodes any more: others may be lost.
	w.add("c", "m", "Succeeded")
	w.see(w.pods["c"])
	w.pass(time.Minute)
	w.want("delete c node_gone")

	// Without grace but waiting for its kubelet: one more helps.
	w = newCluster(t, pods.Config{})
	d := w.add("d", "n", "Failed")
	d.Terminating, d.Finalizers = true, []string{"example.com/f"}
	w.list()
	w.pass(time.Hour)
	w.want("delete d node_gone")
}

// TestWatchBeforeAnswer: the watch may report the Pod that failed, and more, before
// the answer does.
func TestWatchBeforeAnswer(t *testing.T) {
	for _, more := range []bool{false, true} {
		w := newCluster(t, pods.Config{})
		a := w.add("a", "", "Running")
		a.Terminating, a.Generation = true, 3
		w.list()
		asked := w.c.Ready(w.now, 9)
		if len(asked) != 1 || asked[0].Verb != gc.FailPod || asked[0].Generation != 3 {
			t.Fatalf("asked for %+v", asked)
		}
		a.Phase = "Failed"
		w.see(a)
		answer := a.Object
		if more {
			w.see(a)
		}
		w.c.Patched(w.now, asked[0].ID, answer)
		w.c.Finished(w.now, asked[0].ID, gc.Done)
		w.run()
		w.want("delete a terminating_never_scheduled")
		if len(w.pods) > 0 {
			t.Error("it is still there")
		}
	}
}

// TestFailDidNothing: an answer without a Pod, and no word of the watch.
func TestFailDidNothing(t *testing.T) {
	w := newCluster(t, pods.Config{})
	w.add("a", "", "Running").Terminating = true
	w.list()
	for range 3 {
		asked := w.c.Ready(w.now, 9)
		if len(asked) != 1 {
			t.Fatalf("asked for %+v", asked)
		}
		w.c.Finished(w.now, asked[0].ID, gc.Done)
		if next := w.c.Next(); next.Before(w.now.Add(time.Second)) {
			t.Fatalf("asked again at once, at %v", next)
		}
		w.now = w.c.Next()
	}
}

// TestEarlierLife: what was of that name before goes, and the Node that is there does not.
func TestEarlierLife(t *testing.T) {
	w := newCluster(t, pods.Config{})
	w.nodes["n"] = ready
	w.add("a", "n", "Running")
	w.list()
	o := w.nodeObject("n")
	o.UID = uuid("before")
	w.c.Forget(w.now, nodeType, o)
	w.pass(time.Hour)
	w.want()
	if w.wantReason("a", pods.Running); w.reads > 0 {
		t.Error("the Node is read")
	}
}
