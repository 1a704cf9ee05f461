package container

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// inAnyWorld checks a property in worlds that rapid draws and shrinks, and in
// many more that a seed draws. The error names a world without the
// property.
func inAnyWorld(t *testing.T, property func(Snapshot, dice) error) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		d := rapidDice{t}
		s := anyWorld(d)
		if err := property(s, d); err != nil {
			t.Fatalf("%v\n%+v", err, s)
		}
	})
	const worlds = 5_000
	for seed := range uint64(worlds) {
		d := seeded(seed)
		s := anyWorld(d)
		if err := property(s, d); err != nil {
			t.Fatalf("world %d: %v\n%+v", seed, err, s)
		}
	}
}

func TestDecideAgreesWithOracle(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, d dice) error {
		nonsense(d, &s)
		o := oracle{s: s, now: noon}
		return different("-oracle +Decide", o.decide(), summarize(Decide(s, noon)))
	})
}

func different(what string, want, got any) error {
	// cmp takes its time; most worlds do not need it.
	if reflect.DeepEqual(want, got) {
		return nil
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("%s:\n%s", what, diff)
	}
	return nil
}

// The most important rules, checked without the oracle.
func TestDecideIsSane(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, d dice) error {
		nonsense(d, &s)
		return sane(s, Decide(s, noon), noon)
	})
}

// After the plan the limits hold, and there is nothing more to do.
func TestLimitsHoldAfterwards(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, _ dice) error {
		// The sandbox that marks a pod as static may go first: an old sandbox, when the newer one
		// is not static. No kubelet makes such a pod.
		s.StaticPodsKnown = true
		for i := range s.Containers {
			s.Containers[i].RetryAt = time.Time{}
		}
		after := afterwards(s, Decide(s, noon))
		units, total := ripeUnits(after)
		for u, n := range units {
			if most := s.Policy.MaxPerPodContainer; most >= 0 && n > most {
				return fmt.Errorf("%d left of %v", n, u)
			}
		}
		if most := s.Policy.MaxContainers; most >= 0 && total > most {
			return fmt.Errorf("%d left", total)
		}
		if s.Policy.StartGrace > 0 {
			return nil // without its oldest container a pod may look new
		}
		return different("-nothing +steps of the second plan", []Step(nil), Decide(after, noon).Steps)
	})
}

// ripeUnits counts what the limits are about.
func ripeUnits(s Snapshot) (units map[unit]int, total int) {
	units = make(map[unit]int)
	o := oracle{s: s, now: noon}
	for _, c := range o.ripe() {
		if o.noRights(c.Pod.UID) == "" {
			units[unit{c.Pod.UID, c.Name}]++
			total++
		}
	}
	return units, total
}

// Nothing goes that the rules do not ask for.
func TestRemovesNoMoreThanNeeded(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, _ dice) error {
		for i := range s.Containers { // the reason to remove a failed one is not recorded
			s.Containers[i].RetryAt = time.Time{}
		}
		perPod, byTotal := takenByLimits(s, Decide(s, noon))
		units, total := ripeUnits(s)
		largest := 0
		for u, n := range units {
			over := 0
			if most := s.Policy.MaxPerPodContainer; most >= 0 {
				over = max(n-most, 0)
			}
			if perPod[u] != over {
				return fmt.Errorf("%d of %v go, %d are over the limit", perPod[u], u, over)
			}
			total -= over
			largest = max(largest, n-over)
		}
		least := s.Policy.MaxContainers
		switch {
		case least < 0 || total <= least:
			least = total
		case largest > max(least/len(units), 1):
			// The equal share may take more, but leaves one to each.
			least = min(least, len(units))
		}
		if total-byTotal < least {
			return fmt.Errorf("%d of %d go, %d might stay", byTotal, total, least)
		}
		return nil
	})
}

func takenByLimits(s Snapshot, p Plan) (perPod map[unit]int, byTotal int) {
	perPod = make(map[unit]int)
	for _, step := range p.Steps {
		if step.Action != RemoveContainer {
			continue
		}
		c := s.Containers[slices.IndexFunc(s.Containers, func(c Container) bool { return c.ID == step.ContainerID })]
		switch step.Reason {
		case RemovedPerPod:
			perPod[unit{c.Pod.UID, c.Name}]++
		case RemovedTotal:
			byTotal++
		}
	}
	return perPod, byTotal
}

func TestDecideIgnoresOrder(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, d dice) error {
		nonsense(d, &s)
		want := Decide(s, noon)
		if err := different("-first time +second", want, Decide(s, noon)); err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(uint64(d.below(1<<16)), 1))
		s.Containers, s.Sandboxes, s.Pods = shuffled(r, s.Containers), shuffled(r, s.Sandboxes), shuffled(r, s.Pods)
		return different("-in order +shuffled", want, Decide(s, noon))
	})
}

func shuffled[T any](r *rand.Rand, list []T) []T {
	list = slices.Clone(list)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// To know less removes less: without the source of pods, of static pods, or of
// labels. (A limit for the whole node is left out: what stays of one pod is room
// that another's has not.)
func TestDoubtKeeps(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, d dice) error {
		s.Policy.MaxContainers = -1
		all := removed(Decide(s, noon))
		doubt := s
		switch d.below(4) {
		case 0:
			doubt.PodsKnown = false
		case 1:
			doubt.StaticPodsKnown = false
		case 2:
			doubt.Policy.StartGrace += time.Minute
		case 3:
			doubt.Policy.MinAge += time.Minute
		}
		for id := range removed(Decide(doubt, noon)) {
			if !all[id] {
				return fmt.Errorf("%s goes because less is known: %+v", id, doubt)
			}
		}
		return nil
	})
}

// Foreign containers change nothing but the decision on the sandbox they are in.
func TestForeignContainersDoNotCount(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, d dice) error {
		want := Decide(s, noon)
		s.Containers = slices.Clone(s.Containers)
		for i := range 3 {
			s.Containers = append(s.Containers, Container{
				ID: fmt.Sprint("x", i), SandboxID: "elsewhere", State: pick(d, StateExited, StateRunning, StateUnknown), Created: anyTime(d),
			})
		}
		got := Decide(s, noon)
		if !got.Next.Equal(want.Next) {
			return fmt.Errorf("next was %v, is %v", want.Next, got.Next)
		}
		return different("-without +with", want.Steps, got.Steps)
	})
}

// Decide changes nothing it was given.
func TestDecideLeavesItsInputAlone(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, d dice) error {
		nonsense(d, &s)
		before := s
		before.Containers, before.Sandboxes, before.Pods = slices.Clone(s.Containers), slices.Clone(s.Sandboxes), slices.Clone(s.Pods)
		Decide(s, noon)
		return different("-before +after", before, s)
	})
}
