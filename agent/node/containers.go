package node

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

const (
	// tidyPause is how long after an event dead containers are looked for: the CRI
	// notes an exit some milliseconds after containerd has told of it.
	tidyPause = 20 * time.Millisecond
	// tidySpacing is the least time between two looks for dead containers. It
	// grows with what a look costs, so that crash loops on a node with many containers
	// cost little, to tidySpacingMost: an exit is to be acted on within a second.
	tidySpacing     = 200 * time.Millisecond
	tidySpacingMost = 500 * time.Millisecond
	tidyShare       = 50

	// lagFirst and lagMost bound the time between two looks for an exit that
	// containerd has told of and the CRI has not noted: usually some milliseconds.
	// When its shim is slow to die, containerd 1.6 tries again after seconds, and
	// tells nobody. After lagTries (five minutes) it is given up.
	lagFirst = 25 * time.Millisecond
	lagMost  = 500 * time.Millisecond
	lagTries = 600

	// deletingFirst and deletingMost bound the time between two questions whether
	// pods that are being deleted are gone.
	deletingFirst = 250 * time.Millisecond
	deletingMost  = 30 * time.Second
)

// deadBook is what the loop knows of dead containers, sandboxes and their logs.
type deadBook struct {
	workloads inventory.Workloads
	plan      container.Plan
	logs      container.LogPlan
	why       error // that the pods are not known

	looked time.Time     // when the latest look ended
	cost   time.Duration // of that look
	busy   bool          // the reaper is at work
	again  bool          // something happened meanwhile

	failures map[string]failure   // by the ID of container or sandbox, or the entry of a log directory
	finished map[string]time.Time // when exited containers ended, if the policy wants to know
	ended    map[string]int       // exits that the CRI has not seen: how often it was asked
	deleting int                  // how often pods that are being deleted were asked for
	told     string               // what observe mode said last
}

func newDeadBook() deadBook {
	return deadBook{failures: make(map[string]failure), finished: make(map[string]time.Time), ended: make(map[string]int)}
}

// tidySoon plans a look for dead containers.
func (a *Agent) tidySoon(pause time.Duration) {
	if a.cfg.Containers.Enabled {
		spacing := min(max(tidySpacing, tidyShare*a.dead.cost), tidySpacingMost)
		a.alarms.sooner(alarmTidy, latest(a.clock.now().Add(pause), a.dead.looked.Add(spacing)))
	}
}

// noteDead is for an event that may make a container of the CRI dead, or gone. The
// dead of other namespaces are their owners' business.
func (a *Agent) noteDead(e inventory.Event) {
	if !a.cfg.Containers.Enabled || e.Namespace != inventory.CRINamespace {
		return
	}
	if e.Ended {
		a.dead.ended[e.Container] = 0
	}
	if e.Ended || e.Kind == inventory.EventContainer {
		a.tidySoon(tidyPause)
	}
}

// tidy looks for dead containers, sandboxes and logs, decides, and has the
// reaper remove what should go. While the reaper is at work nothing is decided:
// its report brings the next look.
func (a *Agent) tidy(ctx context.Context) {
	d := &a.dead
	if a.rt == nil || !a.cfg.Containers.Enabled {
		return
	}
	if d.busy {
		d.again = true
		return
	}
	a.alive()
	began := a.clock.now()
	s, logs, err := a.observeDead(ctx)
	d.looked, d.cost = a.clock.now(), a.clock.now().Sub(began)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		a.metrics.lookFailures.Inc()
		a.said.once(a.log, "containers", slog.LevelWarn, "cannot read the node's containers; trying again", "error", err)
		a.alarms.sooner(alarmTidy, a.clock.now().Add(retryMost/4))
		return
	}
	a.said.clear(a.log, "containers", "the node's containers can be read again")
	now := a.wall()
	d.plan = container.Decide(s, now)
	d.logs = container.LogPlan{}
	if a.cfg.Containers.Logs {
		d.logs = container.DecideLogs(logs, s, now)
	}
	a.exportDead()
	a.setTidyAlarm(now)
	a.reapPlan()
}

// setTidyAlarm plans the look at which the decision changes by itself.
func (a *Agent) setTidyAlarm(wall time.Time) {
	for _, next := range []time.Time{a.dead.plan.Next, a.dead.logs.Next} {
		if !next.IsZero() {
			a.alarms.sooner(alarmTidy, a.clock.now().Add(max(next.Sub(wall), time.Millisecond)))
		}
	}
	for _, wait := range []time.Duration{a.dead.lag(), a.dead.untilDeleted(a.podBook.latest)} {
		if wait > 0 {
			a.alarms.sooner(alarmTidy, a.clock.now().Add(wait))
		}
	}
}

// lag is when to look again for exits that the CRI has not seen yet.
func (d *deadBook) lag() (wait time.Duration) {
	look := func(id string, runs bool) {
		switch tries, ended := d.ended[id]; {
		case !ended:
		case !runs || tries >= lagTries:
			delete(d.ended, id)
		default:
			d.ended[id]++
			if w := min(lagFirst<<min(tries, 10), lagMost); wait == 0 || w < wait {
				wait = w
			}
		}
	}
	for _, c := range d.workloads.Containers {
		look(c.ID, c.State == container.StateRunning)
	}
	for _, s := range d.workloads.Sandboxes { // a sandbox's process bears its ID
		look(s.ID, !s.NotReady)
	}
	if wait == 0 {
		clear(d.ended) // what is not listed is gone
	}
	return wait
}

// untilDeleted is when to ask again for pods that are being deleted and have
// something dead here: the runtime's last event of them comes before they are gone,
// and the kubelet tells nobody when they are. The API server does; then this only
// asks what is known already.
func (d *deadBook) untilDeleted(pods kube.Pods) time.Duration {
	here := make(map[string]bool)
	for _, s := range d.workloads.Sandboxes {
		if s.NotReady {
			here[s.Pod.UID] = true
		}
	}
	for _, p := range pods.List {
		if p.Deleting && here[p.UID] && d.why == nil {
			d.deleting++
			return min(deletingFirst<<min(d.deleting-1, 10), deletingMost)
		}
	}
	d.deleting = 0
	return 0
}

// spaceNeeded: a filesystem on which pods leave things is over its line, and
// removing images cannot help. Then pods that have ended give way, too, as they do
// for the kubelet's eviction manager.
func (a *Agent) spaceNeeded() bool {
	for _, f := range a.filesystems {
		if !f.holdsImages() && f.lines.HighReached(f.Disk) {
			return true
		}
	}
	return slices.ContainsFunc(a.stores, func(s *store) bool { return s.kept.Hold != nil })
}

// sayDeadPlan logs what observe mode would remove, once for the same plan.
func (a *Agent) sayDeadPlan() {
	d := &a.dead
	var what []string
	for _, s := range d.plan.Steps {
		if s.Action.Removes() {
			what = append(what, cmp.Or(s.ContainerID, s.SandboxID))
		}
	}
	for _, l := range d.logs.RemoveDirectories {
		what = append(what, l.Entry)
	}
	slices.Sort(what)
	if key := strings.Join(what, " "); key != d.told {
		d.told = key
		for _, s := range d.plan.Steps {
			a.log.Info("would "+s.Action.String(), "container", s.ContainerID, "sandbox", s.SandboxID, "reason", string(s.Reason), "detail", s.Detail)
		}
		for _, l := range d.logs.RemoveDirectories {
			a.log.Info("would remove logs", "entry", l.Entry, "reason", string(l.Reason), "detail", l.Detail)
		}
	}
}

// reapPlan hands what should go to the reaper.
func (a *Agent) reapPlan() {
	d := &a.dead
	if len(d.plan.Steps) == 0 && len(d.logs.RemoveDirectories) == 0 && len(d.logs.RemoveLinks) == 0 {
		d.told = ""
		return
	}
	if a.cfg.Mode == config.ModeObserve {
		a.sayDeadPlan()
		return
	}
	d.busy, d.again = true, false
	jobs := jobsOf(d.plan.Steps, d.pods())
	slices.SortStableFunc(jobs, func(i, j job) int { return cmp.Compare(d.failed(i), d.failed(j)) })
	a.toReap <- batch{rt: a.rt, jobs: jobs, logs: d.logs}
}

// failed is how often a job has: those that have not come first, lest the same ones
// take up each batch.
func (d *deadBook) failed(j job) (times int) {
	for _, s := range j.steps {
		times = max(times, d.failures[cmp.Or(s.ContainerID, s.SandboxID)].times)
	}
	return times
}

// pods finds the pod of each sandbox and container.
func (d *deadBook) pods() map[string]container.PodID {
	pods := make(map[string]container.PodID, len(d.workloads.Containers)+len(d.workloads.Sandboxes))
	for _, c := range d.workloads.Containers {
		pods[c.ID] = c.Pod
	}
	for _, s := range d.workloads.Sandboxes {
		pods[s.ID] = s.Pod
	}
	return pods
}

// reaped takes note of what the reaper did.
func (a *Agent) reaped(r reaped) {
	now := a.wall()
	for _, s := range r.removed {
		delete(a.dead.failures, s)
	}
	for id, err := range r.failed {
		f, wait := a.dead.failures[id].again(now)
		a.dead.failures[id] = f
		a.log.Warn("could not be removed; going on with others", "id", id, "reason", "removal failed", "error", err,
			"attempts", f.times, "next", wait.String())
	}
	if !r.done {
		return
	}
	a.dead.busy = false
	pause := time.Duration(0)
	if r.unavailable != nil {
		a.said.once(a.log, "reap", slog.LevelWarn, "the removal of dead containers stops; trying again", "error", r.unavailable)
		pause = retryMost / 4
	} else {
		a.said.clear(a.log, "reap", "the removal of dead containers goes on")
	}
	if r.worked || r.late || a.dead.again || r.unavailable != nil {
		a.tidySoon(pause)
	}
}
