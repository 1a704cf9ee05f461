package container

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const (
	serverUID = "0b1b2c3d-4e5f-6789-abcd-ef0123456789"
	staticUID = "0123456789abcdef0123456789abcdef"
)

func logsOf(uid string, age time.Duration) LogDirectory {
	return LogDirectory{Entry: "default_p_" + uid, Pod: PodID{UID: uid, Namespace: "default", Name: "p"}, Modified: noon.Add(-age)}
}

func TestLogDirectories(t *testing.T) {
	policy := Policy{MaxPerPodContainer: 1, MaxContainers: -1, StartGrace: time.Minute}
	known := func(pods ...Pod) Snapshot {
		return Snapshot{Policy: policy, PodsKnown: true, StaticPodsKnown: true, Pods: pods}
	}
	fromServer := func(pods ...Pod) Snapshot {
		s := known(pods...)
		s.StaticPodsKnown = false
		return s
	}
	with := func(s Snapshot, change func(*Snapshot)) Snapshot { change(&s); return s }
	foreign := logsOf(serverUID, time.Hour)
	foreign.Pod = PodID{}
	failed := logsOf(serverUID, time.Hour)
	failed.RetryAt = noon.Add(time.Minute)
	tests := []struct {
		name string
		dir  LogDirectory
		s    Snapshot
		want Reason
		next time.Duration // from noon; 0: never
	}{
		{"of a pod that is gone", logsOf(serverUID, time.Hour), known(), RemovedPodGone, 0},
		{"of a static pod that is gone", logsOf(staticUID, time.Hour), known(), RemovedPodGone, 0},
		{"of a pod that is there", logsOf(serverUID, time.Hour), known(Pod{UID: serverUID}), KeptPod, 0},
		{"of one being deleted", logsOf(serverUID, time.Hour), known(Pod{UID: serverUID, Deleting: true}), KeptPod, 0},
		{"of one that was deleted and has ended", logsOf(serverUID, time.Hour), known(Pod{UID: serverUID, Deleting: true, Ended: true}), RemovedPodDeleted, 0},
		{"of an evicted one", logsOf(serverUID, time.Hour), known(Pod{UID: serverUID, Ended: true, Evicted: true}), RemovedPodEvicted, 0},
		{"of a job that is done", logsOf(serverUID, time.Hour), known(Pod{UID: serverUID, Ended: true}), KeptPod, 0},
		{"of a job that is done, and space is needed", logsOf(serverUID, time.Hour),
			with(known(Pod{UID: serverUID, Ended: true}), func(s *Snapshot) { s.ReclaimEnded = true }), KeptPod, 0},
		{"new", logsOf(serverUID, 20*time.Second), known(), KeptStarting, 40 * time.Second},
		{"from the future", logsOf(serverUID, -time.Hour), known(), KeptStarting, time.Hour + time.Minute},
		{"nobody knows pods", logsOf(serverUID, time.Hour), Snapshot{Policy: policy}, KeptPod, 0},
		{"by the API server", logsOf(serverUID, time.Hour), fromServer(), RemovedPodGone, 0},
		{"perhaps of a static pod", logsOf(staticUID, time.Hour), fromServer(), KeptPod, 0},
		{"a sandbox is left", logsOf(serverUID, time.Hour),
			with(known(), func(s *Snapshot) { s.Sandboxes = []Sandbox{{ID: "s", Pod: PodID{serverUID, "default", "p"}}} }), KeptHasContainers, 0},
		{"a container is left", logsOf(serverUID, time.Hour),
			with(known(), func(s *Snapshot) {
				s.Containers = []Container{{ID: "c", Name: "c", Pod: PodID{serverUID, "default", "p"}, State: StateExited}}
			}), KeptHasContainers, 0},
		{"not the kubelet's", foreign, known(), KeptForeign, 0},
		{"failed before", failed, known(), KeptFailed, time.Minute},
		{"a policy without sense", logsOf(serverUID, time.Hour), with(known(), func(s *Snapshot) { s.Policy.MinAge = -1 }), KeptBlocked, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := DecideLogs(Logs{Directories: []LogDirectory{tt.dir}}, tt.s, noon)
			all := slices.Concat(p.RemoveDirectories, p.KeepDirectories)
			if len(all) != 1 || all[0].Reason != tt.want || all[0].Detail == "" || all[0].Entry != tt.dir.Entry {
				t.Fatalf("got %+v, want %s", p, tt.want)
			}
			removed := slices.Contains([]Reason{RemovedPodGone, RemovedPodDeleted, RemovedPodEvicted}, tt.want)
			if removed != (len(p.RemoveDirectories) == 1) {
				t.Errorf("%s, and removed: %v", tt.want, p.RemoveDirectories)
			}
			if want := noon.Add(tt.next); tt.next == 0 && !p.Next.IsZero() || tt.next != 0 && !p.Next.Equal(want) {
				t.Errorf("asks again at %v, want %v after noon", p.Next, tt.next)
			}
		})
	}
}

func TestDeadLinks(t *testing.T) {
	l := Logs{DeadLinks: []LogLink{{"b", "gone"}, {"a", "gone too"}, {"c", "there"}, {"", "gone"}, {"d", ""}}}
	s := Snapshot{Containers: []Container{{ID: "there", State: StateRunning}}}
	if got := DecideLogs(l, s, noon).RemoveLinks; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
	s.Policy.StartGrace = -1
	if got := DecideLogs(l, s, noon).RemoveLinks; len(got) > 0 {
		t.Errorf("a policy without sense removes %q", got)
	}
}

func TestGivenByServer(t *testing.T) {
	for uid, want := range map[string]bool{
		serverUID: true, "ABCDEF01-0000-0000-0000-000000000000": true, staticUID: false, "": false,
		"0b1b2c3d-4e5f-6789-abcd-ef012345678": false, "0b1b2c3d-4e5f-6789-abcd-ef01234567890": false,
		"0b1b2c3d04e5f-6789-abcd-ef0123456789": false, "0b1b2c3d-4e5f-6789-abcd-ef012345678g": false, "------------------------------------": false,
	} {
		if givenByServer(uid) != want {
			t.Errorf("%q: %v", uid, !want)
		}
	}
}

// What DecideLogs does is what Decide does with a sandbox of the same pod and
// age, but that ended pods keep their logs.
func TestLogsGoWithTheirPods(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, d dice) error {
		s.ReclaimEnded, s.Policy.StartGrace = false, 0 // a sandbox that may be starting stays, whatever became of its pod
		s.Containers, s.Sandboxes = nil, nil
		uid := pick(d, "p0", "p1", "p2", "p3", serverUID)
		dir := logsOf(uid, 0)
		dir.Modified = anyTime(d)
		got := DecideLogs(Logs{Directories: []LogDirectory{dir}}, s, noon)

		sb := Sandbox{ID: "s", Pod: dir.Pod, NotReady: true, Created: dir.Modified, Static: !givenByServer(uid)}
		s.Sandboxes = []Sandbox{sb}
		gone := slices.ContainsFunc(Decide(s, noon).Steps, func(step Step) bool { return step.Action == RemoveSandbox })
		if gone != (len(got.RemoveDirectories) == 1) {
			return fmt.Errorf("the sandbox goes: %v; its logs: %+v", gone, got)
		}
		return nil
	})
}
