package container

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

var realWorlds = flag.Int("kubelet-worlds", 100_000, "how many worlds the kubelet's own collector is asked about")

// The kubelet's own collector, not a port of it, is asked what it would do in
// each world, by tools/peers/kubernetes/kubelet-gc. What is sent and answered is
// described there.

type kubeletWorldJSON struct {
	MinAge             time.Duration `json:"minAge"`
	MaxPerPodContainer int           `json:"maxPerPodContainer"`
	MaxContainers      int           `json:"maxContainers"`

	SourcesReady    bool `json:"sourcesReady"`
	EvictNonDeleted bool `json:"evictNonDeleted"`

	Containers []kubeletContainerJSON `json:"containers"`
	Sandboxes  []kubeletSandboxJSON   `json:"sandboxes"`
	Pods       []kubeletPodJSON       `json:"pods"`

	LogDirectories []string `json:"logDirectories"`
}

type kubeletContainerJSON struct {
	ID      string        `json:"id"`
	Sandbox string        `json:"sandbox"`
	UID     string        `json:"uid"`
	Name    string        `json:"name"`
	Attempt uint32        `json:"attempt"`
	State   int           `json:"state"` // as the CRI counts them
	Age     time.Duration `json:"age"`
}

type kubeletSandboxJSON struct {
	ID      string        `json:"id"`
	UID     string        `json:"uid"`
	Attempt uint32        `json:"attempt"`
	Ready   bool          `json:"ready"`
	Age     time.Duration `json:"age"`
}

type kubeletPodJSON struct {
	UID        string `json:"uid"`
	Deleted    bool   `json:"deleted"`
	Terminated bool   `json:"terminated"`
	Evicted    bool   `json:"evicted"`
}

func forKubelet(s Snapshot, l Logs) kubeletWorldJSON {
	w := kubeletWorldJSON{
		MinAge: s.Policy.MinAge, MaxPerPodContainer: s.Policy.MaxPerPodContainer, MaxContainers: s.Policy.MaxContainers,
		SourcesReady: s.PodsKnown, EvictNonDeleted: s.ReclaimEnded,
	}
	for _, c := range s.Containers {
		w.Containers = append(w.Containers, kubeletContainerJSON{
			ID: c.ID, Sandbox: c.SandboxID, UID: c.Pod.UID, Name: c.Name, Attempt: c.Attempt,
			State: int(c.State - StateCreated), Age: noon.Sub(c.Created),
		})
	}
	for _, sb := range s.Sandboxes {
		w.Sandboxes = append(w.Sandboxes, kubeletSandboxJSON{
			ID: sb.ID, UID: sb.Pod.UID, Attempt: sb.Attempt, Ready: !sb.NotReady, Age: noon.Sub(sb.Created),
		})
	}
	for _, p := range s.Pods {
		w.Pods = append(w.Pods, kubeletPodJSON{p.UID, p.Deleting, p.Ended, p.Evicted})
	}
	for _, d := range l.Directories {
		w.LogDirectories = append(w.LogDirectories, d.Entry)
	}
	return w
}

// kubeletRounds is what it did, at its first look at a world and at its second.
type kubeletRounds struct {
	Rounds [2][]string `json:"rounds"`
}

// askRealKubelet shows it n worlds and hands each answer to check.
func askRealKubelet(t *testing.T, n int, world func(i int) (Snapshot, Logs), check func(i int, rounds kubeletRounds) error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), peerstest.Binary(t, "kubelet-gc"))
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		encoder, err := json.NewEncoder(in), error(nil)
		for i := 0; i < n && err == nil; i++ {
			err = encoder.Encode(forKubelet(world(i)))
		}
		sent <- errors.Join(err, in.Close())
	}()
	answers := json.NewDecoder(out)
	for i := range n {
		var rounds kubeletRounds
		if err = answers.Decode(&rounds); err != nil {
			err = fmt.Errorf("no answer to world %d: %w", i, err)
			break
		}
		if err = check(i, rounds); err != nil {
			err = fmt.Errorf("world %d: %w", i, err)
			break
		}
	}
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill()) // the sender ends with it
	} else if _, more := answers.Token(); more != io.EOF {
		err = fmt.Errorf("after the last answer: %w", more)
	}
	if err := errors.Join(err, <-sent, cmd.Wait()); err != nil {
		t.Fatal(err)
	}
}

// realWorld is a world that the kubelet knows, with a directory of logs for each
// pod, and a few for others. It leaves to chance which of two things of the same
// age is older, so that no two are: each is older by some nanoseconds of its own.
func realWorld(seed int) (Snapshot, Logs) {
	d := seeded(uint64(seed))
	s := kubeletWorld(d)
	older := make([]time.Duration, len(s.Containers)+len(s.Sandboxes))
	for i := range older {
		j := d.below(i + 1)
		older[i], older[j] = older[j], time.Duration(i)
	}
	for i := range s.Containers {
		s.Containers[i].Created = s.Containers[i].Created.Add(-older[i])
	}
	for i := range s.Sandboxes {
		s.Sandboxes[i].Created = s.Sandboxes[i].Created.Add(-older[len(s.Containers)+i])
	}
	var l Logs
	for _, uid := range []string{"p0", "p1", "p2", "p3", "p4"}[:d.below(6)] {
		l.Directories = append(l.Directories, LogDirectory{
			Entry: "default_" + uid + "_" + uid, Pod: podOf(uid), Modified: pastTime(d),
		})
	}
	return s, l
}

// TestRemovesWhatTheRealKubeletRemoves: the same calls of the runtime, in each
// world, and nothing left to do for either of them afterwards.
func TestRemovesWhatTheRealKubeletRemoves(t *testing.T) {
	begun, steps := time.Now(), 0
	askRealKubelet(t, *realWorlds, realWorld, func(i int, rounds kubeletRounds) error {
		s, l := realWorld(i)
		calls, logs := splitCalls(rounds.Rounds[0])
		steps += len(calls)
		if len(rounds.Rounds[1]) > 0 {
			return fmt.Errorf("the kubelet goes on with %v after %v\n%+v", rounds.Rounds[1], calls, s)
		}
		plan := Decide(s, noon)
		if diff := different("-real kubelet +Decide", calls, callsOf(plan)); diff != nil {
			return fmt.Errorf("%w\n%+v", diff, s)
		}
		if diff := different("-real kubelet +port", removedBy(calls), newKubelet(s, noon).collect()); diff != nil {
			return fmt.Errorf("%w\n%+v", diff, s)
		}
		after := afterwards(s, plan)
		if more := Decide(after, noon).Steps; len(more) > 0 {
			return fmt.Errorf("Decide goes on with %v\n%+v", more, s)
		}
		return compareLogs(l, after, logs)
	})
	took := time.Since(begun)
	t.Logf("%d worlds, %d calls of the runtime, %.0f worlds a second", *realWorlds, steps, float64(*realWorlds)/took.Seconds())
	if steps < *realWorlds {
		t.Errorf("only %d calls: in most worlds nothing happened", steps)
	}
}

// TestDeparturesFromTheRealKubelet: it is the real one that Decide departs from.
func TestDeparturesFromTheRealKubelet(t *testing.T) {
	askRealKubelet(t, len(departures),
		func(i int) (Snapshot, Logs) { return departures[i].world(), Logs{} },
		func(i int, rounds kubeletRounds) error {
			d := departures[i]
			if got := slices.Sorted(maps.Keys(removedBy(rounds.Rounds[0]))); !slices.Equal(got, d.kubelet) {
				return fmt.Errorf("%s: the kubelet removes %v, want %v", d.name, got, d.kubelet)
			}
			return nil
		})
}

// compareLogs: of the directories that the kubelet removes, ebb keeps those of pods
// of which something is left, until that is gone.
func compareLogs(l Logs, after Snapshot, removed []string) error {
	left := make(map[string]bool)
	for _, c := range after.Containers {
		left[c.Pod.UID] = true
	}
	for _, sb := range after.Sandboxes {
		left[sb.Pod.UID] = true
	}
	var want, got []string
	for _, d := range l.Directories {
		if slices.Contains(removed, d.Entry) && !left[d.Pod.UID] {
			want = append(want, d.Entry)
		}
	}
	for _, d := range DecideLogs(l, after, noon).RemoveDirectories {
		got = append(got, d.Entry)
	}
	if diff := different("-real kubelet +DecideLogs", want, got); diff != nil {
		return fmt.Errorf("%w\n%+v", diff, after)
	}
	return nil
}

// splitCalls separates calls of the runtime, sorted, from directories of logs.
func splitCalls(all []string) (calls, logs []string) {
	for _, call := range all {
		if entry, ok := strings.CutPrefix(call, "remove logs "); ok {
			logs = append(logs, entry)
		} else {
			calls = append(calls, call)
		}
	}
	slices.Sort(calls)
	return calls, logs
}

// callsOf are the same for a plan.
func callsOf(p Plan) (calls []string) {
	for _, step := range p.Steps {
		id := step.ContainerID
		if id == "" {
			id = step.SandboxID
		}
		calls = append(calls, step.Action.String()+" "+id)
	}
	slices.Sort(calls)
	return calls
}

// removedBy are the IDs of what such calls remove.
func removedBy(calls []string) map[string]bool {
	gone := make(map[string]bool)
	for _, call := range calls {
		if words := strings.Fields(call); words[0] == "remove" && words[1] != "logs" {
			gone[words[2]] = true
		}
	}
	return gone
}
