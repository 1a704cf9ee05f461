package workloads

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/container"
)

// Reasons of removals and of keeping, by kind.
var (
	removedKinds = map[string][]container.Reason{
		"container":     {container.RemovedPodGone, container.RemovedPodEvicted, container.RemovedPodDeleted, container.RemovedPodEnded, container.RemovedPerPod, container.RemovedTotal},
		"sandbox":       {container.RemovedPodGone, container.RemovedPodEvicted, container.RemovedPodDeleted, container.RemovedPodEnded, container.RemovedSuperseded},
		"log_directory": {container.RemovedPodGone, container.RemovedPodEvicted, container.RemovedPodDeleted},
		"log_link":      {reasonDeadLink},
	}
	keptKinds = map[string][]container.Reason{
		"container":     {container.KeptBlocked, container.KeptForeign, container.KeptRunning, container.KeptStarting, container.KeptYoung, container.KeptFailed, container.KeptWithinLimits},
		"sandbox":       {container.KeptBlocked, container.KeptForeign, container.KeptRunning, container.KeptHasContainers, container.KeptStarting, container.KeptFailed, container.KeptNewest},
		"log_directory": {container.KeptBlocked, container.KeptForeign, container.KeptHasContainers, container.KeptStarting, container.KeptFailed, container.KeptPod},
	}
)

// metrics count the verdicts on dead containers, sandboxes and logs, and their removals.
type metrics struct {
	verdicts *prometheus.GaugeVec
	removed  *prometheus.CounterVec
	failures *prometheus.CounterVec
	spared   *prometheus.CounterVec
}

func newMetrics(r *prometheus.Registry) *metrics {
	m, f := &metrics{}, program.Factory{Registry: r, Subsystem: "node"}
	m.verdicts = f.Gauges("workloads", "Containers, sandboxes and log directories by the verdict of the last decision. A verdict that none has is left out, except removal_failed.", "kind", "state")
	m.removed = f.Counters("workloads_removed_total", "Dead containers, sandboxes, log directories and dead links to logs that were removed, by reason.", "kind", "reason")
	m.failures = f.Counters("workload_removal_failures_total", "Failed removals of dead containers, sandboxes, log directories and links. The agent tries them again.", "kind")
	m.spared = f.Counters("workload_removals_skipped_total", "Removals that the check right before them stopped.", "kind")
	for kind, reasons := range removedKinds {
		m.failures.WithLabelValues(kind)
		m.spared.WithLabelValues(kind)
		for _, r := range reasons {
			m.removed.WithLabelValues(kind, string(r))
			if r != reasonDeadLink { // dead links are counted, and have no verdict
				m.verdicts.WithLabelValues(kind, string(r))
			}
		}
	}
	// Until the first decision every verdict has a series: rules are checked against them.
	for kind, reasons := range keptKinds {
		for _, r := range reasons {
			m.verdicts.WithLabelValues(kind, string(r))
		}
	}
	return m
}

type verdict struct {
	kind   string
	reason container.Reason
}

// decided counts containers, sandboxes and logs by verdict.
func (m *metrics) decided(p *plan) {
	count := make(map[verdict]int)
	kindOf := func(d container.Decision) string {
		if d.ContainerID == "" {
			return "sandbox"
		}
		return "container"
	}
	for _, s := range p.Steps {
		if s.Action.Removes() {
			count[verdict{kindOf(s.Decision), s.Reason}]++
		}
	}
	for _, d := range p.Keep {
		count[verdict{kindOf(d), d.Reason}]++
	}
	for _, l := range p.logs.RemoveDirectories {
		count[verdict{"log_directory", l.Reason}]++
	}
	for _, l := range p.logs.KeepDirectories {
		count[verdict{"log_directory", l.Reason}]++
	}
	m.show(count)
}

// show exports the verdicts that occur, and always failures, which an alert watches.
func (m *metrics) show(count map[verdict]int) {
	for _, kinds := range []map[string][]container.Reason{removedKinds, keptKinds} {
		for kind, reasons := range kinds {
			for _, r := range reasons {
				if n := count[verdict{kind, r}]; n > 0 || r == container.KeptFailed {
					m.verdicts.WithLabelValues(kind, string(r)).Set(float64(n))
				} else {
					m.verdicts.DeleteLabelValues(kind, string(r))
				}
			}
		}
	}
}
