package container

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/golden"
)

// Scenarios are histories of a node in testdata/*.txt. A block of commands
// ends with "----"; the output of Decide follows it, up to an empty line.
//
//	policy [min-age=5m] [per-pod=1] [max=-1] [from=creation|termination] [start-grace=1m]
//	pods known|known-but-static|unknown
//	reclaim-ended on|off
//	pod POD [deleting] [ended] [evicted]      the source names it, or reports a change
//	forget POD                                the source names it no more
//	sandbox ID POD ready|notready created=1h [attempt=2] [static]
//	container ID POD/NAME|foreign created|running|exited|unknown sandbox=S created=1h [finished=5m] [attempt=2]
//	exit ID | lose ID | stop ID               a container ends, the runtime loses track of one, a sandbox ends
//	fails ID 5m                               a step for it failed: not again for five minutes
//	gone ID                                   somebody else removes it
//	wait 5m
//	carry-out                                 the last plan's steps all succeed
//	decide
//
// Times are given as an age: created=3h is three hours ago, created=-1h in the
// future, created=? not known. A pod's UID and name are the same word.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, 5, func(t *testing.T, text string) string { return newScenario(t).run(text) })
}

type scenario struct {
	t    *testing.T
	s    Snapshot
	now  time.Time
	plan Plan
}

func newScenario(t *testing.T) *scenario {
	return &scenario{t: t, now: noon, s: Snapshot{Policy: DefaultPolicy(), PodsKnown: true, StaticPodsKnown: true}}
}

func (sc *scenario) run(text string) string {
	var out strings.Builder
	skipping := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if skipping {
			skipping = line != ""
		}
		if skipping {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "----" {
			out.WriteString(sc.describe())
			skipping = true
			continue
		}
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(line, "#") {
			sc.do(words)
		}
	}
	return out.String()
}

func (sc *scenario) do(words []string) {
	args := make(map[string]string)
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		args[key] = value
	}
	switch words[0] {
	case "policy":
		sc.policy(args)
	case "pods":
		sc.s.PodsKnown = words[1] != "unknown"
		sc.s.StaticPodsKnown = words[1] == "known"
	case "reclaim-ended":
		sc.s.ReclaimEnded = words[1] == "on"
	case "pod":
		sc.forget(words[1])
		sc.s.Pods = append(sc.s.Pods, Pod{words[1], has(args, "deleting"), has(args, "ended"), has(args, "evicted")})
	case "forget":
		sc.forget(words[1])
	case "sandbox":
		sc.s.Sandboxes = append(sc.s.Sandboxes, Sandbox{
			ID: words[1], Pod: podNamed(words[2]), NotReady: words[3] == "notready",
			Attempt: sc.attempt(args), Static: has(args, "static"), Created: sc.ago(args, "created"),
		})
	case "container":
		sc.container(words[1:], args)
	case "wait":
		sc.now = sc.now.Add(sc.duration(words[1]))
	case "carry-out":
		for _, step := range sc.plan.Steps {
			sc.remove(step.ContainerID, step.SandboxID, step.Action)
		}
	case "decide":
		sc.plan = Decide(sc.s, sc.now)
	default:
		sc.change(words)
	}
}

func (sc *scenario) policy(args map[string]string) {
	p := DefaultPolicy()
	p.MinAge, p.StartGrace = sc.duration(args["min-age"]), sc.duration(args["start-grace"])
	if has(args, "per-pod") {
		p.MaxPerPodContainer = sc.number(args["per-pod"])
	}
	if has(args, "max") {
		p.MaxContainers = sc.number(args["max"])
	}
	if args["from"] == "termination" {
		p.AgeFrom = FromTermination
	}
	sc.s.Policy = p
}

func (sc *scenario) container(words []string, args map[string]string) {
	states := map[string]State{"created": StateCreated, "running": StateRunning, "exited": StateExited, "unknown": StateUnknown}
	c := Container{
		ID: words[0], State: states[words[2]], SandboxID: args["sandbox"], Attempt: sc.attempt(args),
		Created: sc.ago(args, "created"), Finished: sc.ago(args, "finished"),
	}
	if pod, name, ok := strings.Cut(words[1], "/"); ok {
		c.Pod, c.Name = podNamed(pod), name
	}
	sc.s.Containers = append(sc.s.Containers, c)
}

// change is for commands about one container or sandbox that is there.
func (sc *scenario) change(words []string) {
	c := slices.IndexFunc(sc.s.Containers, func(c Container) bool { return c.ID == words[1] })
	sb := slices.IndexFunc(sc.s.Sandboxes, func(sb Sandbox) bool { return sb.ID == words[1] })
	if c < 0 && sb < 0 {
		sc.t.Fatalf("%q: there is no such thing, or no such command", words)
	}
	switch command := words[0]; {
	case command == "exit" && c >= 0:
		sc.s.Containers[c].State, sc.s.Containers[c].Finished = StateExited, sc.now
	case command == "lose" && c >= 0:
		sc.s.Containers[c].State = StateUnknown
	case command == "stop" && sb >= 0:
		sc.s.Sandboxes[sb].NotReady = true
	case command == "fails" && c >= 0:
		sc.s.Containers[c].RetryAt = sc.now.Add(sc.duration(words[2]))
	case command == "fails":
		sc.s.Sandboxes[sb].RetryAt = sc.now.Add(sc.duration(words[2]))
	case command == "gone" && c >= 0:
		sc.remove(words[1], "", RemoveContainer)
	case command == "gone":
		sc.remove("", words[1], RemoveSandbox)
	default:
		sc.t.Fatalf("%q: unknown command", words)
	}
}

func (sc *scenario) remove(container, sandbox string, action Action) {
	carryOut(&sc.s, container, sandbox, action)
}

// carryOut does to a snapshot what a step does to a node. Removing a sandbox
// removes its containers, as the CRI does.
func carryOut(s *Snapshot, container, sandbox string, action Action) {
	switch action {
	case RemoveContainer:
		s.Containers = without(s.Containers, func(c Container) bool { return c.ID == container })
	case RemoveSandbox:
		s.Containers = without(s.Containers, func(c Container) bool { return c.SandboxID == sandbox })
		s.Sandboxes = without(s.Sandboxes, func(sb Sandbox) bool { return sb.ID == sandbox })
	}
}

// without returns a copy without the elements that are gone, so that the snapshot handed to
// Decide before stays as it was.
func without[T any](list []T, gone func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), gone)
}

func (sc *scenario) forget(uid string) {
	sc.s.Pods = without(sc.s.Pods, func(p Pod) bool { return p.UID == uid })
}

func (sc *scenario) ago(args map[string]string, key string) time.Time {
	value, ok := args[key]
	if !ok || value == "?" {
		return time.Time{}
	}
	return sc.now.Add(-sc.duration(value))
}

func (sc *scenario) attempt(args map[string]string) uint32 { return uint32(sc.number(args["attempt"])) }

func (sc *scenario) number(s string) int {
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		sc.t.Fatal(err)
	}
	return n
}

func (sc *scenario) duration(s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		sc.t.Fatal(err)
	}
	return d
}

func has(args map[string]string, key string) bool {
	_, ok := args[key]
	return ok
}

// podNamed is a pod whose UID contains its name; the zero value for "foreign".
func podNamed(name string) PodID {
	if name == "foreign" {
		return PodID{}
	}
	return podOf(name)
}

// describe prints the last plan.
func (sc *scenario) describe() string {
	var out strings.Builder
	for i, step := range sc.plan.Steps {
		id := step.ContainerID
		if id == "" {
			id = step.SandboxID
		}
		fmt.Fprintf(&out, "%d. %s %s: %s (%s)\n", i+1, step.Action, id, step.Detail, step.Reason)
	}
	for _, d := range sc.plan.Keep {
		kind, id := "container", d.ContainerID
		if id == "" {
			kind, id = "sandbox", d.SandboxID
		}
		fmt.Fprintf(&out, "keep %s %s: %s (%s)\n", kind, id, d.Detail, d.Reason)
	}
	if !sc.plan.Next.IsZero() {
		fmt.Fprintf(&out, "next in %v\n", sc.plan.Next.Sub(sc.now))
	}
	return out.String()
}
