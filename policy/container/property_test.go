package container

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// inAnyWorld checks a property in worlds that rapid draws and shrinks, and in
// many more that a seed draws. A world without the property is told by the
// error.
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

// The rules that matter most, said without the oracle.
func TestDecideIsSane(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, d dice) error {
		nonsense(d, &s)
		return sane(s, Decide(s, noon), noon)
	})
}

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

// After the plan the limits hold, and there is nothing more to do.
func TestLimitsHoldAfterwards(t *testing.T) {
	inAnyWorld(t, func(s Snapshot, _ dice) error {
		// What told of a static pod may go first: an old sandbox, when the newer one
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
		for i := range s.Containers { // why a failed one should go is not said
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

// Foreign containers change nothing but the fate of the sandbox they are in.
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
