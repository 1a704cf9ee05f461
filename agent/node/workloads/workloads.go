package workloads

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/removal"
	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

const (
	// LookPause is the time from an event to the look for dead containers: the CRI notes an exit
	// some milliseconds after containerd has sent its event.
	LookPause = 20 * time.Millisecond
	// lookSpacing is the least time between two looks for dead containers. It grows with the cost
	// of a look, up to lookSpacingMost, so that crash loops on a node with many containers cost
	// little. An exit must be acted on within a second.
	lookSpacing     = 200 * time.Millisecond
	lookSpacingMost = 500 * time.Millisecond
	lookShare       = 50

	// lagFirst and lagMost bound the time between two looks for an exit that containerd has sent
	// and the CRI has not noted: usually some milliseconds. When its shim is slow to die,
	// containerd 1.6 tries again after seconds, without an event. After lagTries (five minutes) ebb
	// gives up.
	lagFirst = 25 * time.Millisecond
	lagMost  = 500 * time.Millisecond
	lagTries = 600

	// deletingFirst and deletingMost bound the time between two queries whether pods that are being
	// deleted are gone.
	deletingFirst = 250 * time.Millisecond
	deletingMost  = 30 * time.Second
)

// retryPause is the wait after a look that failed, and after the runtime became unreachable. While the
// source of pods does not answer, it doubles up to unsureMost: not every source signals that it
// answers again.
const (
	retryPause = 15 * time.Second
	unsureMost = 5 * time.Minute
)

// Pods knows which pods are bound to this node.
type Pods interface {
	Read(ctx context.Context) (kube.Pods, error)
	Pass() kube.Pass // nil: there is no source of pods
}

// Options are the dependencies of Workloads.
type Options struct {
	Config     config.Config
	Switch     *removal.Switch
	Pods       Pods
	Now        func() time.Time // ebb's clock
	Wall       func() time.Time // the clock of the runtime's dates
	Conditions *condition.Set
	Outside    func(f func()) // calls f, which takes long, without the lock that guards the Workloads
	Log        *slog.Logger
	History    *history.History
}

// Workloads are the dead containers, sandboxes and logs of a node. One lock guards them. Reconcile
// releases it while it reads the node.
type Workloads struct {
	Options
	metrics  *metrics
	executor *executor
	next     time.Time // when to look again; zero: when something happens
	looked   time.Time // when the latest look ended
	cost     time.Duration
	busy     bool // the executor is at work
	again    bool // Reconcile was called while busy
	seen     seen
	plan     plan
	gate     removal.Gate // by the ID of container or sandbox, or the entry of a log directory
}

// seen is what the latest look found, and what is known from earlier ones.
type seen struct {
	inventory.Workloads
	podsUnknown error
	finished    map[string]time.Time // when exited containers ended, if the policy needs it
	ended       map[string]int       // exits that the CRI has not noted: how often it was asked
	deleting    int                  // how often pods that are being deleted were queried
	unsure      int                  // how often in a row the source of pods did not answer
	askAt       time.Time            // when it is asked again; zero or past: not planned
}

// plan is what the latest look decided.
type plan struct {
	container.Plan
	logs container.LogPlan
}

// New registers the metrics. It starts nothing.
func New(r *prometheus.Registry, o Options) *Workloads {
	m := newMetrics(r)
	return &Workloads{
		Options: o, metrics: m, executor: newExecutor(o, m),
		gate: removal.Gate{Switch: o.Switch, History: o.History},
		seen: seen{finished: make(map[string]time.Time), ended: make(map[string]int)},
	}
}

// Run runs the executor until ctx is done.
func (w *Workloads) Run(ctx context.Context) error { return w.executor.run(ctx) }

// Reports returns the channel of the reports that come while a plan is carried out. The loop hands
// each to Reported.
func (w *Workloads) Reports() <-chan Report { return w.executor.reports }

// Next returns when to look again; the zero time if that is not known.
func (w *Workloads) Next() time.Time { return w.next }

func (w *Workloads) sooner(at time.Time) {
	if w.next.IsZero() || at.Before(w.next) {
		w.next = at
	}
}

// Soon plans a look after pause, or later if the latest look was too recent.
func (w *Workloads) Soon(pause time.Duration) {
	if w.Config.Containers.Enabled {
		spacing := min(max(lookSpacing, lookShare*w.cost), lookSpacingMost)
		w.sooner(clock.Latest(w.Now().Add(pause), w.looked.Add(spacing)))
	}
}

// Noted takes in an event that may mean that a container of the CRI is dead, or gone. Dead
// containers of other namespaces are left to their owners.
func (w *Workloads) Noted(e inventory.Event) {
	if !w.Config.Containers.Enabled || e.Namespace != inventory.CRINamespace {
		return
	}
	if e.Ended {
		w.seen.ended[e.Container] = 0
	}
	if e.Ended || e.Kind == inventory.EventContainer {
		w.Soon(LookPause)
	}
}

// Reconcile looks for dead containers, sandboxes and logs, decides, and hands removals to the
// executor. Without a runtime it does nothing. If pods that have ended may give way, it calls needSpace, and they do if
// that returns true. An error is logged, and another look is planned.
func (w *Workloads) Reconcile(ctx context.Context, rt Runtime, needSpace func() bool) error {
	if !w.next.After(w.Now()) {
		w.next = time.Time{}
	}
	if rt == nil || !w.Config.Containers.Enabled {
		return nil
	}
	if w.busy {
		w.again = true
		return nil
	}
	began, noted := w.Now(), slices.Collect(maps.Keys(w.seen.ended))
	over := func() { w.looked, w.cost = w.Now(), w.Now().Sub(began) }
	s, logs, pods, err := w.observe(ctx, rt)
	over()
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		w.Conditions.Begin("containers", slog.LevelWarn, "cannot read the node's containers; trying again", "error", err)
		w.sooner(w.Now().Add(retryPause))
		return err
	}
	w.Conditions.End("containers", "the node's containers can be read again")
	now := w.Wall()
	p := plan{Plan: container.Decide(s, now)}
	s.ReclaimEnded = true
	if ended := container.Decide(s, now); !reflect.DeepEqual(ended, p.Plan) && needSpace() {
		p.Plan = ended
	}
	over()
	if w.Config.Containers.Logs {
		p.logs = container.DecideLogs(logs, s, now)
	}
	w.plan = p
	w.metrics.decided(&w.plan)
	w.lookAgain(now, pods, noted)
	w.carryOut(rt)
	return nil
}

// Unnoted returns how many exits containerd has sent that the CRI has not noted.
func (w *Workloads) Unnoted() int { return len(w.seen.ended) }

// lookAgain plans the next look: the decision changes by itself then, or a lagging exit or a pod
// that is being deleted is checked again.
func (w *Workloads) lookAgain(wall time.Time, pods kube.Pods, noted []string) {
	for _, next := range []time.Time{w.plan.Next, w.plan.logs.Next} {
		if !next.IsZero() {
			w.sooner(w.Now().Add(max(next.Sub(wall), time.Millisecond)))
		}
	}
	for _, wait := range []time.Duration{w.seen.lag(noted), w.seen.untilDeleted(pods)} {
		if wait > 0 {
			w.sooner(w.Now().Add(wait))
		}
	}
	switch {
	case w.seen.podsUnknown == nil && len(w.plan.removes()) == 0:
		w.seen.unsure = 0
	case w.seen.podsUnknown != nil && w.plan.mayWait() && w.Pods.Pass() != nil:
		w.askAgain()
	}
}

// mayWait reports whether something may stay only because the pods are not known.
func (p *plan) mayWait() bool {
	return len(p.Keep) > 0 || slices.ContainsFunc(p.logs.KeepDirectories, func(l container.LogDecision) bool { return l.Reason == container.KeptPod })
}

// askAgain plans a look after the source of pods did not answer.
func (w *Workloads) askAgain() {
	if now := w.Now(); !now.Before(w.seen.askAt) { // otherwise something else led to this look
		w.seen.askAt = now.Add(min(retryPause<<min(w.seen.unsure, 10), unsureMost))
		w.seen.unsure++
	}
	w.sooner(w.seen.askAt)
}

// lag returns the wait for the next look for exits that the CRI has not noted yet; 0: no look.
// noted are those that had been sent when the CRI was asked.
func (s *seen) lag(noted []string) (wait time.Duration) {
	look := func(id string, runs bool) {
		switch tries, ended := s.ended[id]; {
		case !ended:
		case !runs || tries >= lagTries:
			delete(s.ended, id)
		default:
			s.ended[id]++
			if w := min(lagFirst<<min(tries, 10), lagMost); wait == 0 || w < wait {
				wait = w
			}
		}
	}
	for _, c := range s.Containers {
		look(c.ID, c.State == container.StateRunning)
	}
	for _, sandbox := range s.Sandboxes { // the process of a sandbox has its ID
		look(sandbox.ID, !sandbox.NotReady)
	}
	if wait == 0 {
		for _, id := range noted { // what is not listed is gone
			delete(s.ended, id)
		}
	}
	return wait
}

// untilDeleted returns the wait for the next query for pods that are being deleted and have a dead
// sandbox here; 0: no query. The runtime's last event of them comes before they are gone, and the
// kubelet sends none when they are. The API server does; then the query only returns what is known
// already.
func (s *seen) untilDeleted(pods kube.Pods) time.Duration {
	here := make(map[string]bool)
	for _, sandbox := range s.Sandboxes {
		if sandbox.NotReady {
			here[sandbox.Pod.UID] = true
		}
	}
	for _, p := range pods.List {
		if p.Deleting && here[p.UID] && s.podsUnknown == nil {
			s.deleting++
			return min(deletingFirst<<min(s.deleting-1, 10), deletingMost)
		}
	}
	s.deleting = 0
	return 0
}

// removes lists the IDs and log entries that the plan removes, except links.
func (p *plan) removes() (ids []string) {
	for _, s := range p.Steps {
		if s.Action.Removes() {
			ids = append(ids, cmp.Or(s.ContainerID, s.SandboxID))
		}
	}
	for _, l := range p.logs.RemoveDirectories {
		ids = append(ids, l.Entry)
	}
	return ids
}

// sayPlan logs what observe mode would remove.
func (w *Workloads) sayPlan() {
	for _, s := range w.plan.Steps {
		w.Log.Info("would "+s.Action.String(), "container", s.ContainerID, "sandbox", s.SandboxID, "reason", string(s.Reason), "detail", s.Detail)
	}
	for _, l := range w.plan.logs.RemoveDirectories {
		w.Log.Info("would remove logs", "entry", l.Entry, "reason", string(l.Reason), "detail", l.Detail)
	}
}

// carryOut hands the plan to the executor.
func (w *Workloads) carryOut(rt Runtime) {
	p := &w.plan
	if len(p.Steps) == 0 && len(p.logs.RemoveDirectories) == 0 && len(p.logs.RemoveLinks) == 0 {
		w.gate.Idle()
		w.Conditions.End("reap", "nothing is to be removed now")
		return
	}
	if !w.gate.Opens(p.removes(), w.sayPlan) {
		return
	}
	w.busy, w.again = true, false
	jobs := jobsOf(p.Steps, w.seen.pods())
	slices.SortStableFunc(jobs, func(i, j job) int { return cmp.Compare(w.failed(i), w.failed(j)) })
	w.executor.batches <- batch{rt: rt, jobs: jobs, names: w.seen.names(), logs: p.logs}
}

// failed returns how often a job has failed. Jobs that have not come first, so that the same ones
// do not take up each batch.
func (w *Workloads) failed(j job) (times int) {
	for _, s := range j.steps {
		times = max(times, w.gate.Times(cmp.Or(s.ContainerID, s.SandboxID)))
	}
	return times
}

// pods returns the pod of each sandbox and container, by ID.
func (s *seen) pods() map[string]container.PodID {
	pods := make(map[string]container.PodID, len(s.Containers)+len(s.Sandboxes))
	for _, c := range s.Containers {
		pods[c.ID] = c.Pod
	}
	for _, b := range s.Sandboxes {
		pods[b.ID] = b.Pod
	}
	return pods
}

// names returns the names of the containers, by ID.
func (s *seen) names() map[string]string {
	names := make(map[string]string, len(s.Containers))
	for _, c := range s.Containers {
		names[c.ID] = c.Name
	}
	return names
}

// Reported takes in a report of the executor.
func (w *Workloads) Reported(r Report) {
	now := w.Wall()
	for _, id := range r.removed {
		w.gate.Forget(id)
	}
	if len(r.removed) > 0 {
		w.gate.RoomAgain()
	}
	for id, err := range r.failed {
		times, wait := w.gate.Failed(id, now, err)
		w.sooner(w.Now().Add(wait))
		w.Log.Warn("could not be removed; continuing with others", "id", id, "reason", "removal failed", "error", err,
			"attempts", times, "next", wait.String())
	}
	if !r.done {
		return
	}
	w.busy = false
	pause := time.Duration(0)
	if r.unavailable != nil {
		w.Conditions.Begin("reap", slog.LevelWarn, "cannot remove dead containers; trying again", "error", r.unavailable)
		pause = retryPause
	} else {
		w.Conditions.End("reap", "the removal of dead containers goes on")
	}
	if r.unsure {
		w.askAgain()
	} else {
		w.seen.unsure = 0
	}
	if r.worked || r.late || w.again || r.unavailable != nil {
		w.Soon(pause)
	}
}
