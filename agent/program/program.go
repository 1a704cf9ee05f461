// Package program has what ebb's long-running programs share: their version, log, metrics and
// pages.
package program

import (
	"cmp"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/deploy"
)

// Version returns the version of the chart, with the commit that the program was built from.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	return deploy.Version(deploy.Release(), info)
}

// NodeName is this node's name in the cluster (NODE_NAME), or else the host's name.
func NodeName() string {
	host, _ := os.Hostname() // without one, the name is empty
	return cmp.Or(os.Getenv("NODE_NAME"), host)
}

// Logger makes a logger that writes lines of JSON or text, from a level upwards. Both values were
// validated as fields of a configuration. An invalid one means info or json.
func Logger(level, format string, w io.Writer) *slog.Logger {
	var from slog.Level
	if err := from.UnmarshalText([]byte(level)); err != nil {
		from = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: from}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// Factory makes metrics named ebb_SUBSYSTEM_… and registers them. It panics if one
// cannot be registered.
type Factory struct {
	Registry  *prometheus.Registry
	Subsystem string
}

// Counter makes a counter without labels.
func (f Factory) Counter(name, help string) prometheus.Counter {
	return register(f, prometheus.NewCounter(prometheus.CounterOpts{Namespace: "ebb", Subsystem: f.Subsystem, Name: name, Help: help}))
}

// Counters makes a counter with labels.
func (f Factory) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(f, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "ebb", Subsystem: f.Subsystem, Name: name, Help: help}, labels))
}

// Gauge makes a gauge without labels.
func (f Factory) Gauge(name, help string) prometheus.Gauge {
	return register(f, prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "ebb", Subsystem: f.Subsystem, Name: name, Help: help}))
}

// Gauges makes a gauge with labels.
func (f Factory) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(f, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "ebb", Subsystem: f.Subsystem, Name: name, Help: help}, labels))
}

func register[C prometheus.Collector](f Factory, c C) C {
	f.Registry.MustRegister(c)
	return c
}

// Bool returns 1 for true and 0 for false, as the value of a metric.
func Bool(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// BuildInfo is the metric ebb_build_info.
func BuildInfo() prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "ebb", Name: "build_info", Help: "1, with the version of ebb as label.",
		ConstLabels: prometheus.Labels{"version": Version()},
	})
	g.Set(1)
	return g
}
