package container

import (
	"testing"
	"time"
)

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
			if got := reasonFor(Decide(s, noon), "s"); got != test.want {
				t.Errorf("reason %q, want %q", got, test.want)
			}
		})
	}
}
