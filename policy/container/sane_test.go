package container

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// sane holds for any snapshot whatever.
func sane(s Snapshot, p Plan, now time.Time) error {
	if err := everythingOnce(s, p); err != nil {
		return err
	}
	if len(s.Policy.Validate()) > 0 && len(p.Steps) > 0 {
		return fmt.Errorf("acts by a policy that makes no sense")
	}
	if !p.Next.IsZero() && !p.Next.After(now) {
		return fmt.Errorf("next is %v, now is %v", p.Next, now)
	}
	gone := removed(p)
	for i, step := range p.Steps {
		if step.Reason == "" || step.Detail == "" {
			return fmt.Errorf("no reason: %+v", step)
		}
		before := p.Steps[:i]
		switch step.Action {
		case StopContainer, RemoveContainer:
			if err := mayTouch(s, step, before); err != nil {
				return err
			}
		case StopSandbox, RemoveSandbox:
			if err := mayTouchSandbox(s, step, before, gone); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown action in %+v", step)
		}
	}
	return nil
}

// everythingOnce: each item that has an ID is either kept or removed, once.
func everythingOnce(s Snapshot, p Plan) error {
	want, got := make(map[string]int), make(map[string]int)
	for _, c := range s.Containers {
		want["c/"+c.ID] = 1
	}
	for _, sb := range s.Sandboxes {
		want["s/"+sb.ID] = 1
	}
	delete(want, "c/")
	delete(want, "s/")
	key := func(d Decision) string {
		if d.ContainerID == "" {
			return "s/" + d.SandboxID
		}
		return "c/" + d.ContainerID
	}
	for _, d := range p.Keep {
		got[key(d)]++
		if d.Reason == "" || d.Detail == "" {
			return fmt.Errorf("no reason: %+v", d)
		}
	}
	for _, step := range p.Steps {
		if step.Action == RemoveContainer || step.Action == RemoveSandbox {
			got[key(step.Decision)]++
		}
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("listed %v, decided on %v", want, got)
	}
	if !slices.IsSortedFunc(p.Keep, func(a, b Decision) int { return strings.Compare(key(a), key(b)) }) {
		return fmt.Errorf("what is kept is not in order: %+v", p.Keep)
	}
	return nil
}

func mayTouch(s Snapshot, step Step, before []Step) error {
	for _, c := range s.Containers {
		if c.ID != step.ContainerID {
			continue
		}
		if c.State == StateRunning || c.Pod.UID == "" || c.Name == "" {
			return fmt.Errorf("touches %+v", c)
		}
		stopped := slices.ContainsFunc(before, func(b Step) bool { return b.Action == StopContainer && b.ContainerID == c.ID })
		if step.Action == RemoveContainer && stopped != (c.State == StateUnknown) {
			return fmt.Errorf("stopped before it is removed: %v: %+v", stopped, c)
		}
	}
	return nil
}

func mayTouchSandbox(s Snapshot, step Step, before []Step, gone map[string]bool) error {
	for _, sb := range s.Sandboxes {
		if sb.ID == step.SandboxID && (!sb.NotReady || sb.Pod.UID == "") {
			return fmt.Errorf("touches %+v", sb)
		}
	}
	for _, c := range s.Containers {
		if c.SandboxID != step.SandboxID {
			continue
		}
		if !gone[c.ID] {
			return fmt.Errorf("sandbox %s goes with its container %s", step.SandboxID, c.ID)
		}
		i := slices.IndexFunc(before, func(b Step) bool { return b.Action == RemoveContainer && b.ContainerID == c.ID })
		if i < 0 {
			return fmt.Errorf("sandbox %s goes before its container %s", step.SandboxID, c.ID)
		}
		if !step.RestsOn(before[i]) {
			return fmt.Errorf("%+v does not rest on %+v", step, before[i])
		}
	}
	return nil
}
