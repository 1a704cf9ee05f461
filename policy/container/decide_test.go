package container

import (
	"fmt"
	"strings"
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
			if got := fate(Decide(s, noon), "c"); got != test.want {
				t.Errorf("reason %q, want %q", got, test.want)
			}
		})
	}
}

// fate is the reason why a container stays, or goes.
func fate(p Plan, id string) Reason {
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

// Each change alone decides whether the only sandbox goes.
func TestOneSandbox(t *testing.T) {
	ready := Sandbox{ID: "ready", Pod: podOf("web"), Created: noon.Add(-2 * time.Hour)}
	for _, test := range []struct {
		name   string
		change func(*Snapshot, *Sandbox)
		want   Reason
	}{
		{"nothing special", func(*Snapshot, *Sandbox) {}, RemovedPodGone},
		{"ready", func(_ *Snapshot, sb *Sandbox) { sb.NotReady = false }, KeptRunning},
		{"no labels", func(_ *Snapshot, sb *Sandbox) { sb.Pod = PodID{} }, KeptForeign},
		{"a name that is a path", func(_ *Snapshot, sb *Sandbox) { sb.Pod.Name = "a/b" }, KeptForeign},
		{"pod there", func(s *Snapshot, _ *Sandbox) { s.Pods = []Pod{{UID: "web"}} }, KeptNewest},
		{"nobody knows", func(s *Snapshot, _ *Sandbox) { s.PodsKnown = false }, KeptNewest},
		{"pod being deleted", func(s *Snapshot, _ *Sandbox) { s.Pods = []Pod{{UID: "web", Deleting: true}} }, KeptNewest},
		{"pod deleted", func(s *Snapshot, _ *Sandbox) { s.Pods = []Pod{{UID: "web", Deleting: true, Ended: true}} }, RemovedPodDeleted},
		{"pod evicted", func(s *Snapshot, _ *Sandbox) { s.Pods = []Pod{{UID: "web", Evicted: true}} }, RemovedPodEvicted},
		{"pod ended", func(s *Snapshot, _ *Sandbox) { s.Pods = []Pod{{UID: "web", Ended: true}} }, KeptNewest},
		{"pod ended, space needed", func(s *Snapshot, _ *Sandbox) {
			s.Pods, s.ReclaimEnded = []Pod{{UID: "web", Ended: true}}, true
		}, RemovedPodEnded},
		{"a newer one of a pod that is there", func(s *Snapshot, _ *Sandbox) {
			newer := ready
			newer.Created = noon
			s.Pods, s.Sandboxes = []Pod{{UID: "web"}}, append(s.Sandboxes, newer)
		}, RemovedSuperseded},
		{"an older one of a pod that is there", func(s *Snapshot, _ *Sandbox) {
			s.Pods, s.Sandboxes = []Pod{{UID: "web"}}, append(s.Sandboxes, ready)
		}, KeptNewest},
		{"a newer one of another pod", func(s *Snapshot, _ *Sandbox) {
			newer := ready
			newer.Created, newer.Pod = noon, podOf("db")
			s.Pods, s.Sandboxes = []Pod{{UID: "web"}}, append(s.Sandboxes, newer)
		}, KeptNewest},
		{"a newer one that bears another name", func(s *Snapshot, _ *Sandbox) {
			newer := ready
			newer.Created, newer.Pod.Name = noon, "forged"
			s.Pods, s.Sandboxes = []Pod{{UID: "web"}}, append(s.Sandboxes, newer)
		}, RemovedSuperseded},
		{"an older one, ready, of a pod that is gone", func(s *Snapshot, _ *Sandbox) { s.Sandboxes = append(s.Sandboxes, ready) }, RemovedPodGone},
		{"creation unknown, which makes it the newest", func(s *Snapshot, sb *Sandbox) {
			s.Policy.StartGrace, sb.Created, s.Pods = 0, time.Time{}, []Pod{{UID: "web"}}
			s.Sandboxes = append(s.Sandboxes, ready)
		}, KeptNewest},
		{"a running container", func(s *Snapshot, _ *Sandbox) {
			s.Containers = []Container{{ID: "c", SandboxID: "s", State: StateRunning}}
		}, KeptHasContainers},
		{"somebody's container", func(s *Snapshot, _ *Sandbox) {
			s.Containers = []Container{{ID: "c", SandboxID: "s", State: StateExited}}
		}, KeptHasContainers},
		{"a container without ID", func(s *Snapshot, _ *Sandbox) { s.Containers = []Container{{SandboxID: "s", State: StateExited}} }, KeptHasContainers},
		{"another's container", func(s *Snapshot, _ *Sandbox) {
			s.Containers = []Container{{ID: "c", SandboxID: "t", State: StateExited}}
		}, RemovedPodGone},
		{"a container that goes before it", func(s *Snapshot, _ *Sandbox) {
			s.Containers = []Container{{ID: "c", SandboxID: "s", Pod: podOf("web"), Name: "app", State: StateExited, Created: noon.Add(-time.Hour)}}
		}, RemovedPodGone},
		{"a container whose removal failed", func(s *Snapshot, _ *Sandbox) {
			s.Containers = []Container{{ID: "c", SandboxID: "s", Pod: podOf("web"), Name: "app", State: StateExited, Created: noon.Add(-time.Hour), RetryAt: noon.Add(1)}}
		}, KeptHasContainers},
		{"in the grace", func(_ *Snapshot, sb *Sandbox) { sb.Created = noon.Add(-30*time.Second + 1) }, KeptStarting},
		{"just after the grace", func(_ *Snapshot, sb *Sandbox) { sb.Created = noon.Add(-30 * time.Second) }, RemovedPodGone},
		{"in the grace, of an evicted pod", func(s *Snapshot, sb *Sandbox) {
			sb.Created, s.Pods = noon, []Pod{{UID: "web", Evicted: true}}
		}, KeptStarting},
		{"younger than the minimum age, which is about containers", func(s *Snapshot, _ *Sandbox) { s.Policy.MinAge = 24 * time.Hour }, RemovedPodGone},
		{"static, not known", func(s *Snapshot, sb *Sandbox) { sb.Static, s.StaticPodsKnown = true, false }, KeptNewest},
		{"static, known", func(_ *Snapshot, sb *Sandbox) { sb.Static = true }, RemovedPodGone},
		{"not static, static pods not known", func(s *Snapshot, _ *Sandbox) { s.StaticPodsKnown = false }, RemovedPodGone},
		{"failed", func(_ *Snapshot, sb *Sandbox) { sb.RetryAt = noon.Add(1) }, KeptFailed},
		{"failed before", func(_ *Snapshot, sb *Sandbox) { sb.RetryAt = noon }, RemovedPodGone},
		{"listed twice", func(s *Snapshot, sb *Sandbox) { s.Sandboxes = append(s.Sandboxes, *sb) }, KeptBlocked},
		{"no policy that makes sense", func(s *Snapshot, _ *Sandbox) { s.Policy.MinAge = -1 }, KeptBlocked},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := oneDead()
			s.Pods, s.Containers, s.Sandboxes[0].NotReady = nil, nil, true
			test.change(&s, &s.Sandboxes[0])
			if got := fate(Decide(s, noon), "s"); got != test.want {
				t.Errorf("reason %q, want %q", got, test.want)
			}
		})
	}
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

// oldestFirst: which of two goes where one may stay.
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
				if fate(plan, "a") != RemovedPerPod || fate(plan, "b") != KeptWithinLimits {
					t.Errorf("a: %s, b: %s", fate(plan, "a"), fate(plan, "b"))
				}
			}
		})
	}
}

// When does Decide want to be asked again?
func TestNext(t *testing.T) {
	old := noon.Add(-time.Hour)
	for _, test := range []struct {
		name   string
		change func(*Snapshot, *Container)
		want   time.Duration // 0: never
	}{
		{"goes now", func(*Snapshot, *Container) {}, 0},
		{"stays", func(s *Snapshot, _ *Container) { s.Policy.MaxPerPodContainer = 1 }, 0},
		{"young", func(_ *Snapshot, c *Container) { c.Created = noon.Add(-20 * time.Second) }, 40 * time.Second},
		{"young, but there is room for it", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, c.Created = 1, noon
		}, 0},
		{"young, room for it until its pod is gone", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, s.Pods, c.Created = 1, nil, noon
		}, time.Minute},
		{"young since its end", func(s *Snapshot, c *Container) {
			s.Policy.AgeFrom, c.Finished = FromTermination, noon.Add(-50*time.Second)
		}, 10 * time.Second},
		{"nobody knows since when", func(_ *Snapshot, c *Container) { c.Created = time.Time{} }, 0},
		{"from the future", func(_ *Snapshot, c *Container) { c.Created = noon.Add(time.Hour) }, time.Hour + time.Minute},
		{"starting", func(s *Snapshot, c *Container) {
			s.Policy.MinAge, c.State, c.Created = 0, StateCreated, noon
		}, 30 * time.Second},
		{"starting and young", func(_ *Snapshot, c *Container) { c.State, c.Created = StateCreated, noon }, time.Minute},
		{"starting, and old before its time", func(s *Snapshot, c *Container) {
			s.Policy.MinAge, c.State, c.Created = time.Second, StateCreated, noon
		}, 30 * time.Second},
		{"failed", func(_ *Snapshot, c *Container) { c.RetryAt = noon.Add(time.Second) }, time.Second},
		{"failed, and may stay", func(s *Snapshot, c *Container) { s.Policy.MaxPerPodContainer, c.RetryAt = 1, noon.Add(1) }, 0},
		{"not named yet", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, s.Policy.MinAge, s.Pods = 1, 0, nil
			c.Created, s.Sandboxes[0].Created = noon, noon.Add(-10*time.Second)
		}, 20 * time.Second},
		{"not named yet, and young", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, s.Pods = 1, nil
			c.Created, s.Sandboxes[0].Created = noon.Add(-5*time.Second), noon.Add(-10*time.Second)
		}, 55 * time.Second},
		{"not named yet, but nobody knows", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, s.Policy.MinAge, s.Pods, s.PodsKnown = 1, 0, nil, false
			c.Created, s.Sandboxes[0].Created = noon, noon.Add(-10*time.Second)
		}, 0},
		{"a static pod that will never be named", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, s.Policy.MinAge, s.Pods = 1, 0, nil
			s.StaticPodsKnown, s.Sandboxes[0].Static = false, true
			c.Created, s.Sandboxes[0].Created = noon, noon
		}, 0},
		{"a second one for the node", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, s.Policy.MaxContainers = -1, 1
			second := *c
			second.ID, second.Name, second.Created = "d", "log", noon.Add(-10*time.Second)
			s.Containers = append(s.Containers, second)
		}, 50 * time.Second},
		{"a second one for the node, where there is room for two", func(s *Snapshot, c *Container) {
			s.Policy.MaxPerPodContainer, s.Policy.MaxContainers = -1, 2
			second := *c
			second.ID, second.Name, second.Created = "d", "log", noon.Add(-10*time.Second)
			s.Containers = append(s.Containers, second)
		}, 0},
		{"a sandbox that may be about to start", func(s *Snapshot, _ *Container) {
			s.Sandboxes = append(s.Sandboxes, Sandbox{ID: "t", Pod: podOf("web"), NotReady: true, Created: noon.Add(-time.Second)},
				Sandbox{ID: "u", Pod: podOf("web"), Created: noon})
		}, 29 * time.Second},
		{"a sandbox that may be about to start and is the newest", func(s *Snapshot, _ *Container) {
			s.Sandboxes = append(s.Sandboxes, Sandbox{ID: "t", Pod: podOf("web"), NotReady: true, Created: noon.Add(-time.Second)})
		}, 0},
		{"an empty sandbox of a pod not named yet", func(s *Snapshot, _ *Container) {
			s.Sandboxes = append(s.Sandboxes, Sandbox{ID: "t", Pod: podOf("new"), NotReady: true, Created: noon.Add(-time.Second)})
		}, 29 * time.Second},
		{"a sandbox that failed", func(s *Snapshot, _ *Container) {
			s.Sandboxes = append(s.Sandboxes, Sandbox{ID: "t", Pod: podOf("gone"), NotReady: true, Created: old, RetryAt: noon.Add(time.Minute)})
		}, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := oneDead()
			test.change(&s, &s.Containers[0])
			want := time.Time{}
			if test.want > 0 {
				want = noon.Add(test.want)
			}
			if next := Decide(s, noon).Next; !next.Equal(want) {
				t.Errorf("next is %v, want %v", next, want)
			}
		})
	}
}

func TestRestsOn(t *testing.T) {
	step := func(a Action, container, sandbox string) Step {
		return Step{a, Decision{ContainerID: container, SandboxID: sandbox}}
	}
	stop, remove := step(StopContainer, "a", "s"), step(RemoveContainer, "a", "s")
	stopSandbox, removeSandbox := step(StopSandbox, "", "s"), step(RemoveSandbox, "", "s")
	for _, test := range []struct {
		later, earlier Step
		want           bool
	}{
		{remove, stop, true},
		{step(RemoveContainer, "b", "s"), stop, false},
		{step(RemoveContainer, "b", "s"), remove, false},
		{stopSandbox, remove, true},
		{removeSandbox, stop, true},
		{removeSandbox, stopSandbox, true},
		{step(RemoveSandbox, "", "t"), remove, false},
		{step(RemoveSandbox, "", "t"), removeSandbox, false},
		{step(RemoveContainer, "b", "t"), remove, false},
	} {
		if got := test.later.RestsOn(test.earlier); got != test.want {
			t.Errorf("%v rests on %v: %v", test.later, test.earlier, got)
		}
	}
}

func TestActionNames(t *testing.T) {
	var names []string
	for a := range RemoveSandbox + 2 {
		names = append(names, a.String())
	}
	want := "no action, stop container, remove container, stop sandbox, remove sandbox, no action"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestValidate(t *testing.T) {
	for _, p := range []Policy{{}, DefaultPolicy(), {MaxPerPodContainer: -9, MaxContainers: -9, MinAge: 1, StartGrace: 1, AgeFrom: FromTermination}} {
		if problems := p.Validate(); problems != nil {
			t.Errorf("%+v: %v", p, problems)
		}
	}
	wrong := Policy{MinAge: -time.Second, StartGrace: -time.Minute, AgeFrom: 7}
	want := "MinAge must not be negative: -1s; StartGrace must not be negative: -1m0s; AgeFrom must be 0 or 1, not 7"
	if got := joinProblems(wrong.Validate()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	// People are told of it where they look for reasons.
	s := oneDead()
	s.Policy = wrong
	for _, d := range Decide(s, noon).Keep {
		if d.Detail != "policy: "+want {
			t.Errorf("detail %q", d.Detail)
		}
	}
}

func TestDefaultPolicyIsTheKubelets(t *testing.T) {
	if got, want := DefaultPolicy(), (Policy{0, 1, -1, FromCreation, 0}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestIdentify(t *testing.T) {
	labels := func(change map[string]string) map[string]string {
		all := map[string]string{
			"io.kubernetes.pod.uid":        "1b0c8a54-51a4-4f4e-8f5f-0d6a6f1c2d3e",
			"io.kubernetes.pod.namespace":  "kube-system",
			"io.kubernetes.pod.name":       "etcd-node1.example",
			"io.kubernetes.container.name": "etcd",
			"app":                          "anything / at all",
		}
		for key, value := range change {
			if all[key] = value; value == "" {
				delete(all, key)
			}
		}
		return all
	}
	whole := PodID{"1b0c8a54-51a4-4f4e-8f5f-0d6a6f1c2d3e", "kube-system", "etcd-node1.example"}
	for _, test := range []struct {
		name      string
		labels    map[string]string
		pod       PodID
		container string
	}{
		{"the kubelet's", labels(nil), whole, "etcd"},
		{"none", nil, PodID{}, ""},
		{"a sandbox's", labels(map[string]string{"io.kubernetes.container.name": ""}), whole, ""},
		{"a container name that is none", labels(map[string]string{"io.kubernetes.container.name": "a b"}), whole, ""},
		{"no UID", labels(map[string]string{"io.kubernetes.pod.uid": ""}), PodID{}, ""},
		{"no namespace", labels(map[string]string{"io.kubernetes.pod.namespace": ""}), PodID{}, ""},
		{"no name", labels(map[string]string{"io.kubernetes.pod.name": ""}), PodID{}, ""},
		{"a path", labels(map[string]string{"io.kubernetes.pod.uid": "../../../etc"}), PodID{}, ""},
		{"the parent folder", labels(map[string]string{"io.kubernetes.pod.name": ".."}), PodID{}, ""},
		{"this folder", labels(map[string]string{"io.kubernetes.pod.namespace": "."}), PodID{}, ""},
		{"a line break", labels(map[string]string{"io.kubernetes.pod.name": "a\nb"}), PodID{}, ""},
		{"a null byte", labels(map[string]string{"io.kubernetes.pod.name": "a\x00"}), PodID{}, ""},
		{"not ASCII", labels(map[string]string{"io.kubernetes.pod.name": "café"}), PodID{}, ""},
		{"a static pod's hash", labels(map[string]string{"io.kubernetes.pod.uid": "d41d8cd98f00b204e9800998ecf8427e"}),
			PodID{"d41d8cd98f00b204e9800998ecf8427e", "kube-system", "etcd-node1.example"}, "etcd"},
		{"a UID somebody made up", labels(map[string]string{"io.kubernetes.pod.uid": "My_UID:1"}),
			PodID{"My_UID:1", "kube-system", "etcd-node1.example"}, "etcd"},
		{"the longest name", labels(map[string]string{"io.kubernetes.container.name": strings.Repeat("x", 253)}), whole, strings.Repeat("x", 253)},
		{"one longer", labels(map[string]string{"io.kubernetes.container.name": strings.Repeat("x", 254)}), whole, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod, container := Identify(test.labels)
			if pod != test.pod || container != test.container {
				t.Errorf("%+v %q, want %+v %q", pod, container, test.pod, test.container)
			}
		})
	}
	if got := fmt.Sprint(whole); got != "kube-system/etcd-node1.example" {
		t.Errorf("is called %q", got)
	}
}
