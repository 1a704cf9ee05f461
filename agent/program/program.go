// Package program is what ebb's long-running programs say of themselves, and how:
// their version, log, metrics and pages.
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

// Version is the chart's, with the commit that the program was built from.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	return deploy.Version(deploy.Release(), info)
}

// NodeName is this node's name in the cluster (NODE_NAME), or else the host's name.
func NodeName() string {
	host, _ := os.Hostname() // without one it is nameless
	return cmp.Or(os.Getenv("NODE_NAME"), host)
}

// Logger writes lines of JSON, or text, from a level on. Both were validated as
// fields of a configuration; what is none of them means info and json.
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

// Counter makes one without labels.
func (f Factory) Counter(name, help string) prometheus.Counter {
	return register(f, prometheus.NewCounter(prometheus.CounterOpts{Namespace: "ebb", Subsystem: f.Subsystem, Name: name, Help: help}))
}

// Counters makes one with labels.
func (f Factory) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(f, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "ebb", Subsystem: f.Subsystem, Name: name, Help: help}, labels))
}

// Gauge makes one without labels.
func (f Factory) Gauge(name, help string) prometheus.Gauge {
	return register(f, prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "ebb", Subsystem: f.Subsystem, Name: name, Help: help}))
}

// Gauges makes one with labels.
func (f Factory) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(f, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "ebb", Subsystem: f.Subsystem, Name: name, Help: help}, labels))
}

func register[C prometheus.Collector](f Factory, c C) C {
	f.Registry.MustRegister(c)
	return c
}

// Bool is the value of a metric that is 1 for true.
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
