package containerd_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

func podID(name string) container.PodID {
	return container.PodID{UID: "uid-" + name, Namespace: "default", Name: name}
}

// runPod runs a pod and returns how it is listed.
func (s *suite) runPod(t *testing.T, p Pod) (container.Sandbox, container.Container) {
	t.Helper()
	sandboxID, containerID := s.Node.RunPod(t, p)
	return s.sandbox1(t, sandboxID), s.container1(t, containerID)
}

func (s *suite) list(t *testing.T) inventory.Workloads {
	t.Helper()
	w, err := s.Runtime.Workloads(t.Context())
	if err != nil {
		t.Fatalf("workloads: %v", err)
	}
	return w
}

func (s *suite) sandbox1(t *testing.T, id string) container.Sandbox {
	t.Helper()
	list := s.list(t).Sandboxes
	i := slices.IndexFunc(list, func(sb container.Sandbox) bool { return sb.ID == id })
	if i < 0 {
		t.Fatalf("sandbox %s is not listed", id)
	}
	return list[i]
}

func (s *suite) container1(t *testing.T, id string) container.Container {
	t.Helper()
	list := s.list(t).Containers
	i := slices.IndexFunc(list, func(c container.Container) bool { return c.ID == id })
	if i < 0 {
		t.Fatalf("container %s is not listed", id)
	}
	return list[i]
}

func (s *suite) workloads(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("pod"), Runnable: true})
	defer s.discard(t, id)
	began := time.Now().Add(-time.Second)
	pods := []Pod{
		{PodID: podID("usual"), Attempt: 3},
		{PodID: podID("static"), Static: true},
		{PodID: podID("foreign"), WithoutIdentity: true},
	}
	for _, p := range pods {
		t.Run(p.Name, func(t *testing.T) {
			p.Image = name("pod")
			sb, c := s.runPod(t, p)
			defer s.removePod(t, sb.ID, c.ID)
			want := p.PodID
			if p.WithoutIdentity {
				want = container.PodID{}
			}
			if sb.Pod != want || c.Pod != want || (c.Name == "app") == p.WithoutIdentity {
				t.Errorf("pod %+v and %+v, container %q; want %+v", sb.Pod, c.Pod, c.Name, want)
			}
			if sb.Static != p.Static || sb.NotReady || sb.Attempt != p.Attempt || c.Attempt != p.Attempt || c.SandboxID != sb.ID {
				t.Errorf("got %+v and %+v of %+v", sb, c, p)
			}
			if c.State != container.StateRunning || !c.Finished.IsZero() {
				t.Errorf("a running container: %+v", c)
			}
			for what, created := range map[string]time.Time{"sandbox": sb.Created, "container": c.Created} {
				if created.Before(began) || created.After(time.Now().Add(time.Second)) {
					t.Errorf("the %s was created at %v", what, created)
				}
			}
		})
	}
}

// removePod removes what is left of a pod.
func (s *suite) removePod(t *testing.T, sandboxID, containerID string) {
	t.Helper()
	for _, step := range []container.Step{
		{Action: container.StopContainer, Decision: container.Decision{ContainerID: containerID, SandboxID: sandboxID}},
		{Action: container.RemoveContainer, Decision: container.Decision{ContainerID: containerID, SandboxID: sandboxID}},
		{Action: container.StopSandbox, Decision: container.Decision{SandboxID: sandboxID}},
		{Action: container.RemoveSandbox, Decision: container.Decision{SandboxID: sandboxID}},
	} {
		if err := s.Runtime.Do(t.Context(), step); err != nil {
			t.Errorf("%v: %v", step.Action, err)
		}
	}
}

// workloadsGo takes a pod to its end, step by step, each twice: what is gone
// already is no error.
func (s *suite) workloadsGo(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("pod"), Runnable: true})
	defer s.discard(t, id)
	sb, c := s.runPod(t, Pod{PodID: podID("ends"), Image: name("pod")})
	s.wantContainer(t, c.ID, container.StateRunning, nil)
	s.wantSandbox(t, sb.ID, true, 1, nil)

	before := time.Now()
	s.Node.EndContainer(t, c.ID)
	now, err := s.Runtime.ContainerNow(t.Context(), c.ID)
	for deadline := time.Now().Add(patience); err == nil && now.State == container.StateRunning && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // the CRI notes an exit a moment later
		now, err = s.Runtime.ContainerNow(t.Context(), c.ID)
	}
	if err != nil || now.State != container.StateExited || now.Finished.Before(before.Add(-time.Second)) || now.Finished.After(time.Now().Add(time.Second)) {
		t.Fatalf("after its end: %+v, %v", now, err)
	}
	if !strings.HasSuffix(now.LogPath, "/"+c.Pod.Namespace+"_"+c.Pod.Name+"_"+c.Pod.UID+"/app/0.log") {
		t.Errorf("its log is %q", now.LogPath)
	}
	if got := s.container1(t, c.ID); got.State != container.StateExited {
		t.Errorf("listed as %+v", got)
	}

	removeContainer := container.Step{Action: container.RemoveContainer, Decision: container.Decision{ContainerID: c.ID, SandboxID: sb.ID}}
	s.doTwice(t, removeContainer)
	s.wantContainer(t, c.ID, 0, inventory.ErrNotFound)
	s.wantSandbox(t, sb.ID, true, 0, nil)

	s.Node.EndSandbox(t, sb.ID)
	s.wantSandbox(t, sb.ID, false, 0, nil)
	if got := s.sandbox1(t, sb.ID); !got.NotReady {
		t.Errorf("listed as %+v", got)
	}
	s.doTwice(t, container.Step{Action: container.StopSandbox, Decision: container.Decision{SandboxID: sb.ID}})
	s.doTwice(t, container.Step{Action: container.RemoveSandbox, Decision: container.Decision{SandboxID: sb.ID}})
	s.wantSandbox(t, sb.ID, false, 0, inventory.ErrNotFound)

	// What has no name is nothing, and not everything.
	for _, action := range []container.Action{container.StopContainer, container.RemoveContainer, container.StopSandbox, container.RemoveSandbox} {
		if err := s.Runtime.Do(t.Context(), container.Step{Action: action}); err == nil {
			t.Errorf("%v of nothing: no error", action)
		}
	}
}

func (s *suite) doTwice(t *testing.T, step container.Step) {
	t.Helper()
	for range 2 {
		if err := s.Runtime.Do(t.Context(), step); err != nil {
			t.Fatalf("%v: %v", step.Action, err)
		}
	}
}

func (s *suite) wantContainer(t *testing.T, id string, want container.State, wantErr error) {
	t.Helper()
	if now, err := s.Runtime.ContainerNow(t.Context(), id); now.State != want || !errors.Is(err, wantErr) {
		t.Errorf("container: state %v, %v; want %v, %v", now.State, err, want, wantErr)
	}
}

func (s *suite) wantSandbox(t *testing.T, id string, ready bool, containers int, wantErr error) {
	t.Helper()
	gotReady, got, err := s.Runtime.SandboxNow(t.Context(), id)
	if gotReady != ready || got != containers || !errors.Is(err, wantErr) {
		t.Errorf("sandbox: ready %v, %d containers, %v; want %v, %d, %v", gotReady, got, err, ready, containers, wantErr)
	}
}
