package node

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/pods"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/kube"
)

var errSilent = errors.New("the API server is silent")

func podOf(images ...string) kube.Pod {
	return kube.Pod{UID: "1", Namespace: "default", Name: "init", Images: images}
}

// After a restart the source does not answer, and a run goes on: what pods wanted by the
// saved answer stays, and so does what came since. What nobody wanted goes.
func TestRunGoesOnWithoutPods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{podOf("i0")}}
		i0, i1, i2 := w.add("docker.io/library/i0:latest", 100), w.add("i1", 100), w.add("i2", 100)
		w.up()
		for _, name := range []string{"docker.io/library/i0:latest", "i1", "i2"} {
			w.use(name)
		}
		w.pass(time.Minute)
		w.down()
		since := w.add("since", 100)
		w.pods.set(errSilent)
		w.fill(95) // 200 MiB to free
		w.pass(time.Minute)
		w.up()
		w.pass(time.Second)
		w.wantRemoved(i1, i2)
		w.wantReason(i0, image.KeptWanted)
		w.wantLogged(1, "WARN", "the pods of this node are not known", "those that pods wanted 1m", "ago stay, and those that arrived since")

		// A bigger need changes nothing, until the source answers.
		w.fill(99)
		w.pass(time.Minute)
		w.wantRemoved(i1, i2)
		w.wantReason(since, image.KeptPodsUnknown)
		if n := w.metric("ebb_node_images", "pods_unknown"); n != 1 {
			t.Errorf("the metric has %v images", n)
		}
		w.pods.set(nil)
		w.pass(time.Second)
		w.wantRemoved(i1, i2, since)
		w.wantReason(i0, image.KeptHold) // nobody wants it any more: like one that falls out of use
		w.wantLogged(1, "WARN", "the pods of this node are not known")
		w.wantLogged(1, "the pods of this node are known again")
	})
}

// The source need not report that it answers again.
func TestSilentSourceIsAskedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{err: errSilent}
		id := w.add("i0", 200)
		w.up()
		w.fill(95)
		w.pass(time.Second)
		w.wantReason(id, image.KeptPodsUnknown)
		w.pods.mu.Lock()
		w.pods.err = nil
		w.pods.mu.Unlock()
		w.pass(pods.AskFirst + time.Second)
		w.wantRemoved(id)
	})
}

// Without any answer an hour has to pass; but it never blocks for ever.
func TestPodsWereNeverKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{err: errSilent}
		i0 := w.add("i0", 100)
		w.up()
		w.pass(30 * time.Minute)
		i1 := w.add("i1", 100)
		w.fill(95)
		w.pass(image.UnansweredAge - 31*time.Minute)
		w.wantRemoved()
		w.pass(2 * time.Minute)
		w.wantRemoved(i0)
		w.wantReason(i1, image.KeptPodsUnknown)
		w.pass(30 * time.Minute)
		w.wantRemoved(i0, i1)
		w.wantLogged(1, "WARN", "no answer is known: those that arrived within 1h0m0s stay")
	})
}

// That the first list waits for this node's turn is how each start begins, and no trouble; what comes after it may be.
func TestTurnIsNoTrouble(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{err: fmt.Errorf("list pods: %w", kube.ErrNotYet)}
		w.up()
		w.pass(10 * time.Minute)
		w.wantLogged(0, "WARN")
		if s := w.status(); len(s.Degraded) > 0 {
			t.Errorf("degraded by %q", s.Degraded)
		}
		w.pods.set(errSilent)
		w.pass(10 * time.Minute)
		w.wantLogged(1, "WARN", "the pods of this node are not known")
	})
}

// The first list of pods waits for this node's turn. Before images are removed it comes at once.
func TestRemovalDoesNotWaitForTheTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{err: errSilent, turn: make(chan struct{}), list: []kube.Pod{podOf("wanted")}}
		wanted, other := w.add("docker.io/library/wanted:latest", 100), w.add("other", 100)
		w.up()
		w.pass(2 * image.UnansweredAge)
		w.pods.mu.Lock()
		if w.pods.turn == nil {
			t.Error("a node that needs no space is in a hurry")
		}
		w.pods.mu.Unlock()
		w.fill(95) // 200 MiB to free
		w.pass(2 * time.Second)
		w.wantRemoved(other)
		w.wantReason(wanted, image.KeptWanted)
	})
}

// Images that stay because no pods are known are reason enough for the hurry.
func TestHoldDoesNotWaitForTheTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{err: errSilent, turn: make(chan struct{})}
		id := w.add("young", 200)
		w.up()
		w.fill(95)
		w.pass(pods.AskFirst - time.Second)
		w.wantRemoved(id)
	})
}

// A change of what pods want is saved without a look: the agent may be killed.
func TestWantedIsSavedSoon(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Containers.Enabled = false
		w.pods = &fakePods{}
		w.add("docker.io/library/i0:latest", 200)
		w.up()
		w.pass(eventSpacing)
		w.pods.set(nil, podOf("i0"))
		w.pass(wantedPause + time.Second)
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(w.cfg.State.Directory)); err != nil {
			t.Fatal(err)
		}
		s, r, _, err := state.Open(copied, time.Now())
		if err != nil || len(r.Wanted["docker.io/library/i0:latest"]) != 1 {
			t.Errorf("saved is %v, %v", r.Wanted, err)
		}
		s.Close()
	})
}

// A watch that was dead for a while knows nothing of what came then.
func TestAnswerIsAsOldAsItsLatestWord(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{heard: time.Now()}
		old := w.add("i0", 100)
		w.up()
		w.use("i0")
		w.pass(time.Minute)
		w.pods.hear()
		w.pass(time.Minute)
		id := w.add("i1", 100)
		w.pass(time.Minute)
		w.pods.set(errSilent)
		w.fill(95)
		w.pass(time.Second)
		w.wantRemoved(old)
		w.wantReason(id, image.KeptPodsUnknown)
	})
}
