package container

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// oneDead is a node with one dead container, which its limits leave no room
// for, in a ready sandbox of a pod that is there.
func oneDead() Snapshot {
	return Snapshot{
		Policy:    Policy{MaxPerPodContainer: 0, MaxContainers: -1, MinAge: time.Minute, StartGrace: 30 * time.Second},
		PodsKnown: true, StaticPodsKnown: true, Pods: []Pod{{UID: "web"}},
		Sandboxes: []Sandbox{{ID: "s", Pod: podOf("web"), Created: noon.Add(-time.Hour)}},
		Containers: []Container{{
			ID: "c", SandboxID: "s", Pod: podOf("web"), Name: "app", State: StateExited,
			Created: noon.Add(-time.Hour), Finished: noon.Add(-time.Minute),
		}},
	}
}

// Each change alone decides whether the only dead container goes.
func TestOneContainer(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Snapshot, *Container)
		want   Reason
	}{
		{"nothing special", func(*Snapshot, *Container) {}, RemovedPerPod},
		{"running", func(_ *Snapshot, c *Container) { c.State = StateRunning }, KeptRunning},
		{"running, of a pod that is gone", func(s *Snapshot, c *Container) { s.Pods, c.State = nil, StateRunning }, KeptRunning},
		{"running, of an evicted pod", func(s *Snapshot, c *Container) { s.Pods[0].Evicted, c.State = true, StateRunning }, KeptRunning},
		{"lost", func(_ *Snapshot, c *Container) { c.State = StateUnknown }, RemovedPerPod},
		{"created long ago", func(_ *Snapshot, c *Container) { c.State = StateCreated }, RemovedPerPod},
		{"created, in the grace", func(s *Snapshot, c *Container) {
			s.Policy.MinAge, c.State, c.Created = 0, StateCreated, noon.Add(-30*time.Second+1)
		}, KeptStarting},
		{"created, just after the grace", func(s *Snapshot, c *Container) {
			s.Policy.MinAge, c.State, c.Created = 0, StateCreated, noon.Add(-30*time.Second)
		}, RemovedPerPod},
		{"exited in the grace", func(s *Snapshot, c *Container) {
			s.Policy.MinAge, c.Created = 0, noon.Add(-time.Second)
		}, RemovedPerPod},
		{"lost in the grace", func(s *Snapshot, c *Container) {
			s.Policy.MinAge, c.State, c.Created = 0, StateUnknown, noon.Add(-time.Second)
		}, RemovedPerPod},
		{"no state", func(_ *Snapshot, c *Container) { c.State = 0 }, KeptBlocked},
		{"a state that is none", func(_ *Snapshot, c *Container) { c.State = StateUnknown + 1 }, KeptBlocked},

		{"a moment too young", func(_ *Snapshot, c *Container) { c.Created = noon.Add(-time.Minute + 1) }, KeptYoung},
		{"just old enough", func(_ *Snapshot, c *Container) { c.Created = noon.Add(-time.Minute) }, RemovedPerPod},
		{"young, of a pod that is gone", func(s *Snapshot, c *Container) { s.Pods, c.Created = nil, noon }, KeptYoung},
		{"from the future", func(_ *Snapshot, c *Container) { c.Created = noon.Add(time.Hour) }, KeptYoung},
		{"from the future, no minimum age", func(s *Snapshot, c *Container) { s.Policy.MinAge, c.Created = 0, noon.Add(time.Hour) }, RemovedPerPod},
		{"creation unknown", func(_ *Snapshot, c *Container) { c.Created = time.Time{} }, KeptYoung},
		{"creation unknown, no minimum age", func(s *Snapshot, c *Container) { s.Policy.MinAge, c.Created = 0, time.Time{} }, RemovedPerPod},
		{"the largest minimum age", func(s *Snapshot, _ *Container) { s.Policy.MinAge = 1<<63 - 1 }, KeptYoung},

		{"ended long ago", func(s *Snapshot, _ *Container) { s.Policy.AgeFrom = FromTermination }, RemovedPerPod},
		{"ended a moment too late", func(s *Snapshot, c *Container) {
			s.Policy.AgeFrom, c.Finished = FromTermination, c.Finished.Add(1)
		}, KeptYoung},
		{"ended late, but age is from creation", func(_ *Snapshot, c *Container) { c.Finished = noon }, RemovedPerPod},
		{"end unknown", func(s *Snapshot, c *Container) { s.Policy.AgeFrom, c.Finished = FromTermination, time.Time{} }, KeptYoung},
		{"end in the future", func(s *Snapshot, c *Container) { s.Policy.AgeFrom, c.Finished = FromTermination, noon.Add(1) }, KeptYoung},
		{"ended before it began", func(s *Snapshot, c *Container) {
			s.Policy.AgeFrom, c.Created = FromTermination, noon.Add(-time.Second)
		}, KeptYoung},
		{"never ran", func(s *Snapshot, c *Container) {
			s.Policy.AgeFrom, c.State, c.Finished = FromTermination, StateCreated, time.Time{}
		}, RemovedPerPod},
		{"lost, its end is not known", func(s *Snapshot, c *Container) {
			s.Policy.AgeFrom, c.State, c.Finished = FromTermination, StateUnknown, time.Time{}
		}, RemovedPerPod},

		{"no labels", func(_ *Snapshot, c *Container) { c.Pod, c.Name = PodID{}, "" }, KeptForeign},
		{"no UID", func(_ *Snapshot, c *Container) { c.Pod.UID = "" }, KeptForeign},
		{"no namespace", func(_ *Snapshot, c *Container) { c.Pod.Namespace = "" }, KeptForeign},
		{"no pod name", func(_ *Snapshot, c *Container) { c.Pod.Name = "" }, KeptForeign},
		{"no container name", func(_ *Snapshot, c *Container) { c.Name = "" }, KeptForeign},
		{"a UID that is a path", func(_ *Snapshot, c *Container) { c.Pod.UID = "../../etc" }, KeptForeign},

		{"room per pod", func(s *Snapshot, _ *Container) { s.Policy.MaxPerPodContainer = 1 }, KeptWithinLimits},
		{"no limits", func(s *Snapshot, _ *Container) { s.Policy.MaxPerPodContainer = -1 }, KeptWithinLimits},
		{"no room on the node", func(s *Snapshot, _ *Container) { s.Policy.MaxPerPodContainer, s.Policy.MaxContainers = -1, 0 }, RemovedTotal},
		{"room on the node", func(s *Snapshot, _ *Container) { s.Policy.MaxPerPodContainer, s.Policy.MaxContainers = -1, 1 }, KeptWithinLimits},
		{"the limits of a Go integer", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.Policy.MaxContainers = 1<<63-1, -1<<63
		}, KeptWithinLimits},

		{"pod gone", func(s *Snapshot, _ *Container) { s.Policy.MaxPerPodContainer, s.Pods = -1, nil }, RemovedPodGone},
		{"pod gone, nobody knows", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.Pods, s.PodsKnown = -1, nil, false
		}, KeptWithinLimits},
		{"pod gone, a limit too", func(s *Snapshot, _ *Container) { s.Pods = nil }, RemovedPodGone},
		{"pod gone, a limit too, nobody knows", func(s *Snapshot, _ *Container) { s.Pods, s.PodsKnown = nil, false }, RemovedPerPod},
		{"pod not named yet", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, s.Policy.MinAge, s.Pods = -1, 0, nil
			c.Created, s.Sandboxes[0].Created = noon, noon.Add(-30*time.Second+1)
		}, KeptWithinLimits},
		{"pod not named for as long as its sandbox lives", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, s.Policy.MinAge, s.Pods = -1, 0, nil
			c.Created, s.Sandboxes[0].Created = noon, noon.Add(-30*time.Second)
		}, RemovedPodGone},
		{"static pod, not named", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.Pods, s.StaticPodsKnown, s.Sandboxes[0].Static = -1, nil, false, true
		}, KeptWithinLimits},
		{"static pod, gone", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.Pods, s.Sandboxes[0].Static = -1, nil, true
		}, RemovedPodGone},
		{"another pod, not named, and static pods are not known", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.Pods, s.StaticPodsKnown = -1, nil, false
		}, RemovedPodGone},
		{"its sandbox is not listed, and static pods are not known", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.Pods, s.StaticPodsKnown, s.Sandboxes = -1, nil, false, nil
		}, KeptWithinLimits},
		{"its sandbox is not listed", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.Pods, s.Sandboxes = -1, nil, nil
		}, RemovedPodGone},

		{"pod evicted", func(s *Snapshot, _ *Container) { s.Policy.MaxPerPodContainer, s.Pods[0].Evicted = -1, true }, RemovedPodEvicted},
		{"pod being deleted", func(s *Snapshot, _ *Container) { s.Policy.MaxPerPodContainer, s.Pods[0].Deleting = -1, true }, KeptWithinLimits},
		{"pod deleted", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.Pods[0].Deleting, s.Pods[0].Ended = -1, true, true
		}, RemovedPodDeleted},
		{"pod ended", func(s *Snapshot, _ *Container) { s.Policy.MaxPerPodContainer, s.Pods[0].Ended = -1, true }, KeptWithinLimits},
		{"pod ended, space needed", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.Pods[0].Ended, s.ReclaimEnded = -1, true, true
		}, RemovedPodEnded},
		{"pod alive, space needed", func(s *Snapshot, _ *Container) { s.Policy.MaxPerPodContainer, s.ReclaimEnded = -1, true }, KeptWithinLimits},
		{"pod being deleted, space needed", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.Pods[0].Deleting, s.ReclaimEnded = -1, true, true
		}, KeptWithinLimits},
		{"pod ended and evicted, but nobody knows", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.PodsKnown, s.ReclaimEnded = -1, false, true
			s.Pods = []Pod{{"web", true, true, true}}
		}, KeptWithinLimits},
		{"named twice, once alive", func(s *Snapshot, _ *Container) {
			s.Policy.MaxPerPodContainer, s.ReclaimEnded = -1, true
			s.Pods = []Pod{{"web", true, true, true}, {UID: "web"}}
		}, KeptWithinLimits},

		{"failed", func(_ *Snapshot, c *Container) { c.RetryAt = noon.Add(time.Second) }, KeptFailed},
		{"failed before", func(_ *Snapshot, c *Container) { c.RetryAt = noon }, RemovedPerPod},
		{"failed, but may stay by now", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, c.RetryAt = 1, noon.Add(time.Second)
		}, KeptWithinLimits},
		{"negative minimum age", func(s *Snapshot, _ *Container) { s.Policy.MinAge = -1 }, KeptBlocked},
		{"negative grace", func(s *Snapshot, _ *Container) { s.Policy.StartGrace = -1 }, KeptBlocked},
		{"age from nowhere", func(s *Snapshot, _ *Container) { s.Policy.AgeFrom = 2 }, KeptBlocked},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := oneDead()
			test.change(&s, &s.Containers[0])
			if got := reasonFor(Decide(s, noon), "c"); got != test.want {
				t.Errorf("reason %q, want %q", got, test.want)
			}
		})
	}
}

// reasonFor is why a container stays, or goes.
func reasonFor(p Plan, id string) Reason {
	for _, step := range p.Steps {
		if step.Action == RemoveContainer && step.ContainerID == id || step.Action == RemoveSandbox && step.SandboxID == id {
			return step.Reason
		}
	}
	for _, d := range p.Keep {
		if d.ContainerID == id || d.ContainerID == "" && d.SandboxID == id {
			return d.Reason
		}
	}
	return "undecided"
}

// What cannot be named gets no decision, and costs nobody else anything.
func TestWithoutID(t *testing.T) {
	s := oneDead()
	s.Containers[0].ID, s.Sandboxes[0].ID = "", ""
	if diff := cmp.Diff(Plan{}, Decide(s, noon)); diff != "" {
		t.Errorf("-nothing +plan:\n%s", diff)
	}
}

func TestEmptyNode(t *testing.T) {
	for _, policy := range []Policy{{}, DefaultPolicy(), {MinAge: -1}} {
		if diff := cmp.Diff(Plan{}, Decide(Snapshot{Policy: policy, PodsKnown: true, Pods: []Pod{{UID: "a"}}}, noon)); diff != "" {
			t.Errorf("%+v: -nothing +plan:\n%s", policy, diff)
		}
	}
}

// A monotonic reading in the time given must not end up in the plan, or equal
// times would not be equal.
func TestTimesAreWallClock(t *testing.T) {
	s := oneDead()
	now := time.Now()
	s.Containers[0].Created = now.Add(-time.Second).Round(0)
	next := Decide(s, now).Next
	if want := now.Add(59 * time.Second).Round(0); next != want {
		t.Errorf("next is %v, want %v", next, want)
	}
}

// Which of two goes where one may stay.
func TestWhichIsOlder(t *testing.T) {
	at := func(minutes int) time.Time { return noon.Add(-time.Duration(minutes) * time.Minute) }
	for _, test := range []struct {
		name string
		from AgeFrom
		a, b Container // a goes
	}{
		{"creation", FromCreation, Container{Created: at(9), Finished: at(1), Attempt: 7}, Container{Created: at(8), Finished: at(2)}},
		{"termination", FromTermination, Container{Created: at(8), Finished: at(2), Attempt: 7}, Container{Created: at(9), Finished: at(1)}},
		{"termination, ended together", FromTermination, Container{Created: at(9), Finished: at(1), Attempt: 7}, Container{Created: at(8), Finished: at(1)}},
		{"restarts", FromCreation, Container{Created: at(9), Attempt: 1}, Container{Created: at(9), Attempt: 2}},
		{"ID", FromCreation, Container{Created: at(9), Attempt: 1}, Container{Created: at(9), Attempt: 1}},
		{"what is not known is new", FromCreation, Container{Created: at(1), Attempt: 7}, Container{}},
		{"what is from the future is newer than now", FromCreation, Container{Created: noon, Attempt: 7}, Container{Created: at(-1)}},
		{"and from a nearer one older", FromCreation, Container{Created: at(-1), Attempt: 7}, Container{Created: at(-2)}},
		{"and known", FromCreation, Container{Created: at(-1), Attempt: 7}, Container{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := oneDead()
			s.Policy = Policy{MaxPerPodContainer: 1, MaxContainers: -1, AgeFrom: test.from}
			label := func(c Container, id string) Container {
				c.ID, c.SandboxID, c.Pod, c.Name, c.State = id, "s", podOf("web"), "app", StateExited
				return c
			}
			for _, order := range [][]Container{{label(test.a, "a"), label(test.b, "b")}, {label(test.b, "b"), label(test.a, "a")}} {
				s.Containers = order
				plan := Decide(s, noon)
				if reasonFor(plan, "a") != RemovedPerPod || reasonFor(plan, "b") != KeptWithinLimits {
					t.Errorf("a: %s, b: %s", reasonFor(plan, "a"), reasonFor(plan, "b"))
				}
			}
		})
	}
}
