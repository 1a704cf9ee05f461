package container

import (
	"fmt"
	"testing"
	"time"
)

// crashLoops is a node with so many dead containers, five of each name, in
// pods of two names; one pod in ten is gone.
func crashLoops(dead int) Snapshot {
	const perName, names = 5, 2
	s := Snapshot{PodsKnown: true, StaticPodsKnown: true, Policy: Policy{
		MinAge: time.Minute, MaxPerPodContainer: 1, MaxContainers: dead / 20,
	}}
	for i := range dead {
		p := i % (dead / (perName * names))
		s.Containers = append(s.Containers, Container{
			ID:        fmt.Sprintf("%064x", i*7919%dead),
			SandboxID: fmt.Sprint("sandbox ", p), Pod: podOf(fmt.Sprint("pod-", p)), Name: fmt.Sprint("app-", i%names),
			State: StateExited, Created: noon.Add(-time.Duration(i*31%dead) * time.Second),
		})
	}
	for p := range dead / (perName * names) {
		uid := fmt.Sprint("pod-", p)
		s.Sandboxes = append(s.Sandboxes, Sandbox{ID: fmt.Sprint("sandbox ", p), Pod: podOf(uid), Created: noon.Add(-2 * time.Hour), NotReady: p%10 == 0})
		if p%10 != 0 {
			s.Pods = append(s.Pods, Pod{UID: uid})
		}
	}
	return s
}

func BenchmarkDecide(b *testing.B) {
	for _, dead := range []int{100, 5000} {
		b.Run(fmt.Sprint(dead), func(b *testing.B) {
			s := crashLoops(dead)
			b.ReportAllocs()
			var plan Plan
			for b.Loop() {
				plan = Decide(s, noon)
			}
			b.ReportMetric(float64(len(plan.Steps)), "steps")
		})
	}
}

// The benchmark measures what its name promises, and every pass has its part.
func TestCrashLoops(t *testing.T) {
	s := crashLoops(5000)
	plan := Decide(s, noon)
	reasons := make(map[Reason]int)
	for _, step := range plan.Steps {
		reasons[step.Reason]++
	}
	for _, reason := range []Reason{RemovedPodGone, RemovedPerPod, RemovedTotal} {
		if reasons[reason] < 100 {
			t.Errorf("%d steps for %s", reasons[reason], reason)
		}
	}
	kept := make(map[Reason]int)
	for _, d := range plan.Keep {
		kept[d.Reason]++
	}
	if kept[KeptWithinLimits] != 250 || kept[KeptYoung] == 0 {
		t.Errorf("kept: %v", kept)
	}
	if diff := compareWithKubelet(s); diff != "" {
		t.Errorf("-kubelet +Decide:\n%s", diff)
	}
}
