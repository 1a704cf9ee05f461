package container

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

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

// Nothing changes by itself before Next, Next included.
func TestNextIsNeverLate(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, d dice) error {
		plan := Decide(s, noon)
		until := noon.Add(48 * time.Hour)
		if !plan.Next.IsZero() {
			until = plan.Next.Add(-1)
		}
		for _, at := range append(moments(s), until, noon.Add(time.Duration(d.below(6000))*time.Second)) {
			if at.Before(noon) || at.After(until) {
				continue
			}
			later := Decide(s, at)
			if err := different(fmt.Sprintf("next is %v, -now +at %v", plan.Next, at), plan.Steps, later.Steps); err != nil {
				return err
			}
			if !later.Next.Equal(plan.Next) {
				return fmt.Errorf("next is %v, but at %v it is %v", plan.Next, at, later.Next)
			}
		}
		return nil
	})
}

// At Next something does change. Only where a limit for the whole node is
// reached already may one more leave everything as it is.
func TestNextIsNotIdle(t *testing.T) {
	woken := 0
	inAnyWorld(t, func(s Snapshot, _ dice) error {
		s.Policy.MaxContainers = -1
		for i := range s.Containers { // when it fails again nothing changes
			s.Containers[i].RetryAt = time.Time{}
		}
		plan := Decide(s, noon)
		if plan.Next.IsZero() {
			return nil
		}
		woken++
		if later := Decide(s, plan.Next); reflect.DeepEqual(later.Steps, plan.Steps) {
			return fmt.Errorf("woken at %v for nothing: %+v", plan.Next, plan.Steps)
		}
		return nil
	})
	if woken < 500 {
		t.Errorf("only %d worlds had something to wait for", woken)
	}
}

// moments are the times at which anything in a world reaches any age.
func moments(s Snapshot) (list []time.Time) {
	add := func(t time.Time) {
		for _, age := range []time.Duration{0, s.Policy.MinAge, s.Policy.StartGrace} {
			list = append(list, t.Add(age-1), t.Add(age), t.Add(age+1))
		}
	}
	for _, c := range s.Containers {
		add(c.Created)
		add(c.Finished)
		add(c.RetryAt)
	}
	for _, sb := range s.Sandboxes {
		add(sb.Created)
		add(sb.RetryAt)
	}
	slices.SortFunc(list, time.Time.Compare)
	return slices.Compact(list)
}
