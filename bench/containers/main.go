// Command containers measures the agent with dead containers: how soon it removes one after its
// exit, how long it takes to decide on 5,000, and how fast it removes them. It also measures what
// happens to pods that a real kubelet starts while the agent removes images.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/policy/container"
)

const mib = 1 << 20

// settings are the flags.
type settings struct {
	agent, only string
	exits, dead int

	starts, kubeletStarts int
	seed                  uint64

	results string
}

// figures are written to containers.json.
type figures struct {
	// From the moment when the runtime has noted the exit. Until then the container is a running
	// one.
	ExitP50 float64 `json:"exit_to_removed_p50_ms,omitempty"`
	ExitP99 float64 `json:"exit_to_removed_p99_ms,omitempty"`
	ExitMax float64 `json:"exit_to_removed_max_ms,omitempty"`
	Exits   int     `json:"exits,omitempty"`

	// How long the runtime takes to note the exit.
	NotedP50 float64 `json:"exit_to_noted_p50_ms,omitempty"`
	NotedP99 float64 `json:"exit_to_noted_p99_ms,omitempty"`

	Decide float64 `json:"decide_5000_ms,omitempty"` // the median

	RemovedPerSecond float64 `json:"removed_per_s,omitempty"`
	RemovedMany      int     `json:"removed,omitempty"`

	// The same race against ebb and against the kubelet's own garbage collection; nil if it was
	// not measured.
	Race        *race `json:"race,omitempty"`
	KubeletRace *race `json:"race_kubelet,omitempty"`
}

// race is what happened to the pods in a race.
type race struct {
	Seed        uint64 `json:"seed"`
	Started     int    `json:"pods_started"` // whose image was there when they were bound
	Permanently int    `json:"pods_failed_permanently"`
	Transiently int    `json:"pods_failed_transiently"`
	Missing     int    `json:"pods_bound_without_image"`
	// Of Missing: pods whose image was removed while they were bound, and how many of them ran.
	Withdrawn    int `json:"pods_bound_while_image_went"`
	WithdrawnRan int `json:"pods_bound_while_image_went_ran"`
	Removed      int `json:"images_removed"`
	Kept         int `json:"images_kept_at_the_last_moment"`
	NoSpace      int `json:"imports_without_space"`
	DiskFull     int `json:"pods_met_full_disk"`
	Kills        int `json:"agent_kills"`
}

// parts can each be measured separately.
var parts = []benchmark.Part[func(context.Context, settings, *figures) error]{
	{Name: "decide", Measure: measureDecide}, {Name: "exits", Measure: measureExits}, {Name: "race", Measure: measureRace}, {Name: "race-kubelet", Measure: measureKubeletRace},
}

func main() {
	var s settings
	flag.StringVar(&s.agent, "agent", "bin/ebb-agent", "the ebb-agent binary to measure")
	flag.StringVar(&s.only, "only", "", "measure only some of: decide, exits, race, race-kubelet; then nothing is written, unless -results says where")
	flag.IntVar(&s.exits, "exits", 200, "how many containers exit one after the other")
	flag.IntVar(&s.dead, "dead", 200, "how many are dead at once when the agent starts")
	flag.IntVar(&s.starts, "starts", 1000, "how many pods the kubelet starts while the agent removes images")
	flag.IntVar(&s.kubeletStarts, "kubelet-starts", 300, "how many while it does that itself, which is slower: it makes room every 10 s")
	flag.Uint64Var(&s.seed, "seed", 0, "of the races; 0: by the clock")
	flag.StringVar(&s.results, "results", result.Dir, "where containers.json goes")
	benchmark.MainOrRender("bench-containers", func() error { return render(s.results) }, func(ctx context.Context) error { return run(ctx, s) })
}

func run(ctx context.Context, s settings) (err error) {
	wanted, err := benchmark.Only(parts, s.only)
	if err != nil {
		return err
	}
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixNano())
	}
	var f figures
	for _, p := range wanted {
		if err := p.Measure(ctx, s, &f); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	s.results = result.Whole(s.results, s.only)
	if err := result.Write(s.results, "containers", f); err != nil {
		return err
	}
	return render(s.results)
}

// decides is how often the policy decides on 5,000 containers.
const decides = 101

// measureDecide runs the policy on 5,000 dead containers of 500 pods. It removes most of them, some
// for each of its reasons.
func measureDecide(ctx context.Context, _ settings, f *figures) error {
	const dead, perPod = 5000, 10
	now := time.Now()
	s := container.Snapshot{PodsKnown: true, StaticPodsKnown: true, Policy: container.Policy{
		MinAge: time.Minute, MaxPerPodContainer: 1, MaxContainers: dead / 20,
	}}
	for p := range dead / perPod {
		pod := container.PodID{UID: fmt.Sprintf("uid-%06d", p*7919%(dead/perPod)), Namespace: "default", Name: fmt.Sprint("pod-", p)}
		sandbox := fmt.Sprintf("sandbox-%064x", p)
		s.Sandboxes = append(s.Sandboxes, container.Sandbox{ID: sandbox, Pod: pod, NotReady: p%10 == 0, Created: now.Add(-2 * time.Hour)})
		if p%10 != 0 {
			s.Pods = append(s.Pods, container.Pod{UID: pod.UID})
		}
		for n := range perPod {
			s.Containers = append(s.Containers, container.Container{
				ID: fmt.Sprintf("%064x", (p*perPod+n)*104729%dead), SandboxID: sandbox, Pod: pod, Name: fmt.Sprint("app-", n%2),
				State: container.StateExited, Attempt: uint32(n), Created: now.Add(-time.Duration((p*perPod+n)*31%dead) * time.Second),
			})
		}
	}
	var took []float64
	steps := 0
	for range decides {
		begun := time.Now()
		plan := container.Decide(s, now)
		took = append(took, float64(time.Since(begun).Nanoseconds())/1e6)
		steps = len(plan.Steps)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if steps < dead/2 {
		return errors.New("hardly anything goes: there is nothing to measure")
	}
	f.Decide = result.Round(result.Percentile(took, 50))
	benchmark.Say("decide: 5,000 dead containers in %.1f ms (at most %.1f), %d steps", f.Decide, slices.Max(took), steps)
	return nil
}
