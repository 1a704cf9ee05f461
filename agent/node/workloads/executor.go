package workloads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// jobsAtOnce is how many sandboxes are worked on at a time. One that takes longer than slowAfter
// makes room for another, because its network plugin may hang. jobsMost bounds all together.
const (
	jobsAtOnce = 4
	jobsMost   = 32
	slowAfter  = 2 * time.Second
)

// batchMost is how long a batch begins new steps. The rest is decided again, after a look at what
// has died since. A hundred sandboxes that hang for half a minute each must not hold up the others
// until the last of them has failed.
const batchMost = 15 * time.Second

// goneTimeout bounds the query whether a pod is gone.
const goneTimeout = 10 * time.Second

// batch is what a plan wants done.
type batch struct {
	rt    Runtime
	jobs  []job
	names map[string]string // of containers, by ID
	logs  container.LogPlan
}

// job is the steps for one sandbox and its containers, in order.
type job struct {
	pod   container.PodID
	steps []container.Step
}

// Report is the result of a job, by the IDs of containers and sandboxes or the entries of logs;
// done is set in the last of a batch.
type Report struct {
	removed     []string
	failed      map[string]error
	unavailable error // the runtime was unreachable; that is no failure of a step
	late        bool  // its time was up, and steps are left
	unsure      bool  // the source of pods did not answer whether a pod is gone
	done        bool
	worked      bool // with done: something was removed
}

// jobsOf groups steps by sandbox. Steps that depend on each other are always in one job (see
// container.Step.RestsOn).
func jobsOf(steps []container.Step, pods map[string]container.PodID) []job {
	var jobs []job
	at := make(map[string]int)
	for _, s := range steps {
		n, ok := at[s.SandboxID]
		if !ok {
			n = len(jobs)
			at[s.SandboxID] = n
			pod := pods[s.SandboxID]
			if s.ContainerID != "" {
				pod = pods[s.ContainerID]
			}
			jobs = append(jobs, job{pod: pod})
		}
		jobs[n].steps = append(jobs[n].steps, s)
	}
	return jobs
}

// Runtime is what the removal of dead containers needs of a container runtime.
type Runtime interface {
	Workloads(ctx context.Context) (inventory.Workloads, error)
	ContainerNow(ctx context.Context, id string) (container.Status, error)
	SandboxNow(ctx context.Context, id string) (ready bool, containers int, err error)
	Do(ctx context.Context, s container.Step) error
}

// executor removes dead containers, sandboxes and logs. It checks each again before the removal,
// keeps to the rate, and reports, logs and counts the results.
type executor struct {
	pods    Pods
	limit   *rate.Limiter
	podLogs string // directory of the pods' logs
	logs    bool   // logs may be removed
	links   string
	log     *slog.Logger
	history *history.History
	metrics *metrics
	paused  func() bool
	batches chan batch
	reports chan Report
}

func newExecutor(o Options, m *metrics) *executor {
	c := o.Config.Containers
	limit := rate.NewLimiter(rate.Inf, 0)
	if c.MaxRemovalsPerSecond > 0 {
		limit = rate.NewLimiter(rate.Limit(c.MaxRemovalsPerSecond), 1)
	}
	return &executor{
		pods: o.Pods, limit: limit, podLogs: o.Config.Filesystems.PodLogs.Path, logs: o.Config.Containers.Logs, links: c.LogLinks, log: o.Log, history: o.History, metrics: m,
		paused:  func() bool { return o.Switch.Paused() != nil },
		batches: make(chan batch, 1), reports: make(chan Report),
	}
}

// run carries out batches until ctx is done.
func (e *executor) run(ctx context.Context) error {
	report := func(what Report) bool {
		select {
		case e.reports <- what:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		select {
		case b := <-e.batches:
			if !report(e.carryOut(ctx, b, report)) {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// carryOut carries out one batch. It reports each job, and returns the last report.
func (e *executor) carryOut(ctx context.Context, b batch, report func(Report) bool) Report {
	intime, cancel := context.WithTimeout(ctx, batchMost)
	defer cancel()
	results := make(chan Report)
	turns := make(chan struct{}, jobsAtOnce)
	pass := e.pods.Pass()
	var g errgroup.Group
	g.SetLimit(jobsMost)
	go func() {
		for _, j := range b.jobs {
			turns <- struct{}{}
			next := sync.OnceFunc(func() { <-turns })
			g.Go(func() error {
				slow := time.AfterFunc(slowAfter, next)
				defer next()
				defer slow.Stop()
				results <- e.do(ctx, intime, b, j, pass)
				return nil
			})
		}
		_ = g.Wait() // jobs return no errors
		close(results)
	}()
	last := Report{done: true}
	for done := range results {
		last.worked, last.late, last.unsure = last.worked || len(done.removed) > 0, last.late || done.late, last.unsure || done.unsure
		if done.unavailable != nil {
			last.unavailable = done.unavailable
		}
		report(done)
	}
	logs := e.doLogs(ctx, b.logs, pass)
	last.worked = last.worked || len(logs.removed) > 0
	last.removed, last.failed, last.unsure = logs.removed, logs.failed, last.unsure || logs.unsure
	return last
}

// do carries out the steps of one job, each only if it may still be done. It begins no step after
// intime ends. It skips a step that depends on one that was not done.
func (e *executor) do(ctx, intime context.Context, b batch, j job, pass kube.Pass) (done Report) {
	done.failed = make(map[string]error)
	var undone []container.Step
	gone := goneAnswer{pass: pass}
	for _, s := range j.steps {
		if ctx.Err() != nil || done.unavailable != nil {
			return done
		}
		if done.late = intime.Err() != nil; done.late {
			return done
		}
		if rests(s, undone) {
			undone = append(undone, s)
			continue
		}
		id, kind := s.ContainerID, "container"
		if id == "" {
			id, kind = s.SandboxID, "sandbox"
		}
		if s.Action.Removes() && e.limit.Wait(intime) != nil { // a stop before the removal does not count
			done.late = ctx.Err() == nil
			return done
		}
		if e.paused() {
			return done
		}
		entry := stepEntry(kind, id, b.names[s.ContainerID], j.pod, s)
		attempt := e.begin(ctx, entry, s) // before the last check: nothing comes between that and the step
		log, why, err := e.nowKept(ctx, b.rt, s, j.pod, &gone)
		done.unsure = gone.unsure
		if why == "" && err == nil && s.Action == container.RemoveContainer {
			err = e.removeLog(log, j.pod)
		}
		if why == "" && err == nil {
			err = b.rt.Do(ctx, s)
		}
		e.book(ctx, attempt, entry, why, err)
		switch {
		case ctx.Err() != nil:
			return done
		case errors.Is(err, inventory.ErrUnavailable):
			done.unavailable = err
		case err != nil:
			undone = append(undone, s)
			done.failed[id] = err
			e.metrics.failures.WithLabelValues(kind).Inc()
		case why != "":
			undone = append(undone, s)
			e.metrics.spared.WithLabelValues(kind).Inc()
			e.log.Info(kind+" kept by the last check", "id", id, "pod", podText(j.pod), "reason", why)
		case s.Action.Removes():
			done.removed = append(done.removed, id)
			e.metrics.removed.WithLabelValues(kind, string(s.Reason)).Inc()
			e.log.Info(kind+" removed", "id", id, "pod", podText(j.pod), "reason", string(s.Reason), "detail", s.Detail)
		}
	}
	return done
}

func rests(s container.Step, undone []container.Step) bool {
	for _, u := range undone {
		if s.RestsOn(u) {
			return true
		}
	}
	return false
}

// goneAnswer is the source's answer about a pod. The source is asked once for each job.
type goneAnswer struct {
	pass   kube.Pass // nil: there is no source of pods
	asked  bool
	why    string
	unsure bool // the source did not answer
}

// nowKept checks again whether a step may be done; why is "" if so. log is the path of a
// container's log.
func (e *executor) nowKept(ctx context.Context, rt Runtime, s container.Step, pod container.PodID, gone *goneAnswer) (log, why string, err error) {
	if s.Reason == container.RemovedPodGone {
		if !gone.asked {
			gone.asked = true
			gone.why, gone.unsure = notGone(ctx, gone.pass, pod)
		}
		if gone.why != "" {
			return "", gone.why, nil
		}
	}
	if s.ContainerID == "" {
		why, err = sandboxKept(ctx, rt, s.SandboxID)
		return "", why, err
	}
	now, err := rt.ContainerNow(ctx, s.ContainerID)
	switch {
	case errors.Is(err, inventory.ErrNotFound): // to remove it again does no harm
		return "", "", nil
	case err != nil:
		return "", "", fmt.Errorf("check before removal: %w", err)
	case now.State == container.StateRunning:
		return "", "the container runs", nil
	case now.State == container.StateUnknown && s.Action == container.RemoveContainer:
		return "", "it is unknown whether the container runs", nil
	}
	return now.LogPath, "", nil
}

func sandboxKept(ctx context.Context, rt Runtime, id string) (why string, err error) {
	ready, containers, err := rt.SandboxNow(ctx, id)
	switch {
	case errors.Is(err, inventory.ErrNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("check before removal: %w", err)
	case ready:
		return "the sandbox is ready", nil
	case containers > 0:
		return fmt.Sprintf("the sandbox has %d containers", containers), nil
	}
	return "", nil
}

// notGone asks the source of pods. It returns "" if the pod is gone, and otherwise why it does not
// count as gone. unsure is true if the source did not answer.
func notGone(ctx context.Context, pass kube.Pass, pod container.PodID) (why string, unsure bool) {
	if pass == nil {
		return "it is unknown whether its pod is gone", false
	}
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	gone, err := pass.Gone(ctx, pod.Namespace, pod.Name, pod.UID)
	switch {
	case err != nil:
		return "cannot find out whether its pod is gone: " + err.Error(), true
	case !gone:
		return "its pod is there again", false
	}
	return "", false
}
