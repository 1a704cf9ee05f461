package node

import (
	"regexp"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/monitor"
	"github.com/ebb-agent/ebb/agent/node/removal"
	"github.com/ebb-agent/ebb/agent/program"
)

// metrics are those of the loop and its workers; the parts have their own.
type metrics struct {
	mounts       prometheus.Counter
	wakeups      prometheus.Counter
	lookFailures prometheus.Counter
	lastSuccess  prometheus.Gauge
	runtimeUp    prometheus.Gauge
	dialFailures prometheus.Counter
	broken       prometheus.Gauge
	unwatched    prometheus.Gauge
}

// newMetrics registers the metrics, and those of the process.
func newMetrics(r *prometheus.Registry, cfg config.Config, switches *removal.Switch, loop *monitor.Monitor) *metrics {
	r.MustRegister(
		// No metrics of the Go heap: the memory of the process is enough.
		collectors.NewGoCollector(collectors.WithGoCollectorMemStatsMetricsDisabled(), collectors.WithoutGoCollectorRuntimeMetrics(regexp.MustCompile(`.`))),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		program.BuildInfo(),
		configInfo(cfg),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "ebb", Subsystem: "node", Name: "paused",
			Help: "1 while the agent is paused, by ebb pause or by the pause file. It then removes nothing.",
		}, func() float64 { return program.Bool(switches.Paused() != nil) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "ebb", Subsystem: "node", Name: "loop_blocked_seconds_max",
			Help: "The longest time since the start that the agent could not receive the kernel's messages, because it handled another event.",
		}, func() float64 { return loop.Longest().Seconds() }),
	)
	f := program.Factory{Registry: r, Subsystem: "node"}
	return &metrics{
		mounts:       f.Counter("mount_changes_total", "Times the kernel reported a change of mounts, anywhere on the node. One report can be about several changes."),
		wakeups:      f.Counter("timer_wakeups_total", "Times the agent woke by its own timers."),
		lookFailures: f.Counter("inventory_failures_total", "Times the agent could not read the inventory of the node."),
		lastSuccess:  f.Gauge("last_success_timestamp_seconds", "Unix time at which the agent last read everything and decided."),
		runtimeUp:    f.Gauge("runtime_events_up", "1 while the runtime's event stream is connected."),
		broken:       f.Gauge("snapshotters_broken", "Snapshotters of the runtime that could not be read. The images that are unpacked in them stay."),
		unwatched:    f.Gauge("snapshotters_unwatched", "Snapshotters whose layers are on another disk than the images, or where the agent cannot see them. Their layers count as 0 bytes."),
		dialFailures: f.Counter("runtime_dial_failures_total", "Failed attempts to connect to the container runtime."),
	}
}

// configInfo exports the fields of the configuration that one needs to interpret other metrics.
func configInfo(c config.Config) prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "ebb", Subsystem: "node", Name: "config_info",
		Help: "1, with three fields of the configuration as labels: mode, pods.source and kernel.enabled.",
	}, []string{"mode", "pods", "kernel"})
	g.WithLabelValues(string(c.Mode), c.Pods.Source, strconv.FormatBool(c.Kernel.Enabled)).Set(1)
	return g
}
