package node

import (
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/container"
)

// The kinds of what the reaper removes, and why.
var (
	reapKinds = map[string][]container.Reason{
		"container":     {container.RemovedPodGone, container.RemovedPodEvicted, container.RemovedPodDeleted, container.RemovedPodEnded, container.RemovedPerPod, container.RemovedTotal},
		"sandbox":       {container.RemovedPodGone, container.RemovedPodEvicted, container.RemovedPodDeleted, container.RemovedPodEnded, container.RemovedSuperseded},
		"log_directory": {container.RemovedPodGone, container.RemovedPodEvicted, container.RemovedPodDeleted},
		"log_link":      {reasonDeadLink},
	}
	keptWorkloads = map[string][]container.Reason{
		"container":     {container.KeptBlocked, container.KeptForeign, container.KeptRunning, container.KeptStarting, container.KeptYoung, container.KeptFailed, container.KeptWithinLimits},
		"sandbox":       {container.KeptBlocked, container.KeptForeign, container.KeptRunning, container.KeptHasContainers, container.KeptStarting, container.KeptFailed, container.KeptNewest},
		"log_directory": {container.KeptBlocked, container.KeptForeign, container.KeptHasContainers, container.KeptStarting, container.KeptFailed, container.KeptPod},
	}
)

func (m *Metrics) registerDead(f program.Factory) {
	m.dead = f.Gauges("workloads", "Containers, sandboxes and log directories by the verdict of the last decision.", "kind", "state")
	m.reaped = f.Counters("workloads_removed_total", "Dead containers, sandboxes, directories of logs and dead links removed, by reason.", "kind", "reason")
	m.reapFailures = f.Counters("workload_removal_failures_total", "Removals of these that failed; tried again later.", "kind")
	m.reapSpared = f.Counters("workloads_spared_total", "What the check before removal found needed after all.", "kind")
	m.podsUp = f.Gauge("pods_known", "1 while the source of pods can be reached. Without it no pod is taken for gone.")
	for kind, reasons := range reapKinds {
		m.reapFailures.WithLabelValues(kind)
		m.reapSpared.WithLabelValues(kind)
		for _, r := range reasons {
			m.reaped.WithLabelValues(kind, string(r))
			m.dead.WithLabelValues(kind, string(r))
		}
	}
	m.dead.DeleteLabelValues("log_link", string(reasonDeadLink)) // counted, not judged
	for kind, reasons := range keptWorkloads {
		for _, r := range reasons {
			m.dead.WithLabelValues(kind, string(r))
		}
	}
}

// exportDead counts containers, sandboxes and logs by verdict.
func (a *Agent) exportDead() {
	type verdict struct {
		kind   string
		reason container.Reason
	}
	count := make(map[verdict]int)
	kindOf := func(d container.Decision) string {
		if d.ContainerID == "" {
			return "sandbox"
		}
		return "container"
	}
	for _, s := range a.dead.plan.Steps {
		if s.Action.Removes() {
			count[verdict{kindOf(s.Decision), s.Reason}]++
		}
	}
	for _, d := range a.dead.plan.Keep {
		count[verdict{kindOf(d), d.Reason}]++
	}
	for _, l := range a.dead.logs.RemoveDirectories {
		count[verdict{"log_directory", l.Reason}]++
	}
	for _, l := range a.dead.logs.KeepDirectories {
		count[verdict{"log_directory", l.Reason}]++
	}
	for _, kinds := range []map[string][]container.Reason{reapKinds, keptWorkloads} {
		for kind, reasons := range kinds {
			for _, r := range reasons {
				if r != reasonDeadLink {
					a.metrics.dead.WithLabelValues(kind, string(r)).Set(float64(count[verdict{kind, r}]))
				}
			}
		}
	}
}
