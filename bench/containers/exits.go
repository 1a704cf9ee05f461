package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

const image = "containers.test/app:1"

// removals records when the agent logged the removal of each container.
type removals struct {
	mu   sync.Mutex
	at   map[string]time.Time
	news chan struct{}
}

func (r *removals) line(l agentrun.Line) {
	if l.Level == "WARN" {
		benchmark.Say("the agent warns: %s %v", l.Message, l.Fields)
	}
	if l.Message != "container removed" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[l.Text("id")] = l.Time
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// wait waits until a container is removed or, for the id "", until n are.
func (r *removals) wait(ctx context.Context, id string, n int) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the agent removed nothing for a minute"))
	defer cancel()
	for {
		r.mu.Lock()
		at, ok := r.at[id]
		all := len(r.at)
		r.mu.Unlock()
		if ok || id == "" && all >= n {
			return at, nil
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// measureExits kills containers of pods, one after the other, with a policy that keeps no dead
// container. Then it starts the agent on a node with many dead containers. There is no kubelet, so
// only the agent removes containers.
func measureExits(ctx context.Context, s settings, f *figures) (err error) {
	n, err := node.Start(ctx, node.Config{Name: "bench-containers", SizeBytes: 768 * mib, Containerd: node.V2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if _, err := n.Import(ctx, node.CRINamespace, node.Image{Name: image}); err != nil {
		return err
	}
	c := agentrun.ConfigFor(n)
	c.Containers.MaxPerPodContainer = 0
	c.Containers.Logs = false
	removed := &removals{at: map[string]time.Time{}, news: make(chan struct{}, 1)}
	start := func() (*agentrun.Process, error) {
		return agentrun.Start(ctx, agentrun.Options{Binary: s.agent, Dir: n.Dir(), Config: c, OnLine: removed.line})
	}
	defer func() { err = errors.Join(err, agentrun.Unload(c)) }()
	p, err := start()
	if err != nil {
		return err
	}
	var took, noted []float64
	for i := range s.exits {
		t, err := exitOnce(ctx, n, i, removed)
		if err != nil {
			return errors.Join(fmt.Errorf("exit %d: %w", i, err), p.Stop())
		}
		took, noted = append(took, t.removed), append(noted, t.noted)
		if (i+1)%50 == 0 {
			benchmark.Say("exits: %d of %d", i+1, s.exits)
		}
	}
	f.ExitP50, f.ExitP99 = result.Round(result.Percentile(took, 50)), result.Round(result.Percentile(took, 99))
	f.ExitMax, f.Exits = result.Round(result.Percentile(took, 100)), len(took)
	f.NotedP50, f.NotedP99 = result.Round(result.Percentile(noted, 50)), result.Round(result.Percentile(noted, 99))
	benchmark.Say("exits: the runtime noted them after %.0f ms at the median, p99 %.0f; from then to the removal %.0f ms, p99 %.0f, at most %.0f",
		f.NotedP50, f.NotedP99, f.ExitP50, f.ExitP99, f.ExitMax)
	if err := p.Stop(); err != nil {
		return err
	}
	return removeMany(ctx, s, f, n, removed, start)
}

// exitOnce runs a pod, kills its container, and waits for its removal.
func exitOnce(ctx context.Context, n *node.Node, i int, removed *removals) (times, error) {
	pod, err := runPod(ctx, n, fmt.Sprint("exit-", i))
	if err != nil {
		return times{}, err
	}
	id := pod.Containers["app"]
	begun, err := kill(ctx, n, id)
	if err != nil {
		return times{}, err
	}
	noted, err := awaitExit(ctx, n, id)
	if err != nil {
		return times{}, err
	}
	at, err := removed.wait(ctx, id, 0)
	if err != nil {
		return times{}, err
	}
	ms := func(d time.Duration) float64 { return max(0, float64(d.Microseconds())/1e3) }
	return times{noted: ms(noted.Sub(begun)), removed: ms(at.Sub(noted))}, pod.Remove(ctx)
}

// times of one exit, in milliseconds: until the runtime noted it, and from then
// until the container was gone.
type times struct{ noted, removed float64 }

// awaitExit asks the CRI for one container until it is not running any more.
func awaitExit(ctx context.Context, n *node.Node, id string) (time.Time, error) {
	pods, _ := n.CRI()
	err := benchmark.Until(ctx, 2*time.Millisecond, time.Minute, "a container does not exit", func(ctx context.Context) (bool, error) {
		r, err := pods.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if status.Code(err) == codes.NotFound {
			return true, nil
		}
		return err == nil && r.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING, err
	})
	return time.Now(), err
}

func runPod(ctx context.Context, n *node.Node, name string) (*node.Pod, error) {
	return n.RunPod(ctx, node.PodSpec{Name: name, Containers: []node.PodContainer{{Name: "app", Image: image, Command: []string{"sleep", "3600"}}}})
}

// kill kills a container, and returns when it did.
func kill(ctx context.Context, n *node.Node, id string) (time.Time, error) {
	in := namespaces.WithNamespace(ctx, node.CRINamespace)
	c, err := n.Client().LoadContainer(in, id)
	if err != nil {
		return time.Time{}, err
	}
	task, err := c.Task(in, nil)
	if err != nil {
		return time.Time{}, err
	}
	begun := time.Now()
	return begun, task.Kill(in, syscall.SIGKILL)
}

// removeMany measures how fast the agent removes containers that were dead before its start.
func removeMany(ctx context.Context, s settings, f *figures, n *node.Node, removed *removals, start func() (*agentrun.Process, error)) error {
	var ids []string
	for i := range s.dead {
		pod, err := runPod(ctx, n, fmt.Sprint("dead-", i))
		if err != nil {
			return err
		}
		id := pod.Containers["app"]
		if _, err := kill(ctx, n, id); err != nil {
			return err
		}
		ids = append(ids, id)
		if (i+1)%50 == 0 {
			benchmark.Say("many: %d of %d are dead", i+1, s.dead)
		}
	}
	removed.mu.Lock()
	clear(removed.at)
	removed.mu.Unlock()
	p, err := start()
	if err != nil {
		return err
	}
	if _, err := removed.wait(ctx, "", len(ids)); err != nil {
		return errors.Join(err, p.Stop())
	}
	at := slices.SortedFunc(maps.Values(removed.at), time.Time.Compare)
	took := at[len(at)-1].Sub(at[0])
	f.RemovedMany = len(ids)
	f.RemovedPerSecond = result.Round(float64(len(ids)-1) / took.Seconds())
	benchmark.Say("many: %d dead containers went in %v, %.0f a second", len(ids), took.Round(time.Millisecond), f.RemovedPerSecond)
	return p.Stop()
}
