package cluster

import (
	"regexp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/gc"
)

var liveHeap = regexp.MustCompile(`^/gc/heap/live:bytes$`)

// Metrics is everything that the controller exports; docs/controller-metrics.md is generated from
// the registry. Labels are bounded: types up to a maximum number; names and namespaces are never
// labels.
type Metrics struct {
	Registry *prometheus.Registry

	gate    *gate.Metrics
	events  *prometheus.CounterVec
	journal *journal.Metrics

	nodes, queued, inFlight, limit, leader, slowed, deferred prometheus.Gauge
	throttled, givenUp, restores, skipped                    prometheus.Counter
	scraped                                                  scraped
	inventoryTime, inventorySize                             prometheus.Gauge
	inventoryReads, reads, discoveries                       *prometheus.CounterVec
	types                                                    *prometheus.GaugeVec
	requests                                                 *prometheus.HistogramVec
}

// NewMetrics registers all metrics with a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	f := program.Factory{Registry: m.Registry, Subsystem: "controller"}
	m.nodes = f.Gauge("graph_nodes", "Objects in the graph, and owners that were never seen.")
	m.queued = f.Gauge("queue_length", "Objects that wait for a decision.")
	m.inFlight = f.Gauge("requests_in_flight", "Running requests of workers.")
	m.limit = f.Gauge("request_concurrency_limit", "Maximum number of concurrent requests at present.")
	m.throttled = f.Counter("requests_throttled_total", "Answers with the status 429 (too many requests).")
	m.reads = f.Counters("reads_total", "Live reads of owners (verify), of objects (read) and of the Pods of a Node (bound), by result.", "verb", "state")
	m.requests = histogram(f, "request_duration_seconds", "Duration of requests in seconds.", "verb")
	m.types = f.Gauges("types", "Types, by state.", "state")
	m.discoveries = f.Counters("discoveries_total", "Times the controller asked the API server which types exist, by result.", "result")
	m.restores = f.Counter("etcd_restores_total", "Restores of etcd that were noticed: resourceVersions went backwards, or a list contradicts the watch.")
	m.gate = gate.NewMetrics(f, collectorNames())
	m.events = events.Counter(f)
	m.journal = journal.NewMetrics(f)
	m.skipped = f.Counter("objects_skipped_total", "Times an object of another API server was seen that cannot be tracked, for example because it has no UID.")
	m.givenUp = f.Counter("foreground_deletions_incomplete_total", "Foreground deletions that ended although a type could not be listed.")
	m.leader = f.Gauge("leader", "1 while this instance acts.")
	m.inventoryReads = f.Counters("inventory_reads_total", "Times the inventory of machines was read, by result.", "result")
	m.inventoryTime = f.Gauge("inventory_timestamp_seconds", "Unix time in the last inventory of machines that could be read: when it was made.")
	m.inventorySize = f.Gauge("inventory_machines", "Machines in the last inventory that could be read.")
	m.slowed = f.Gauge("slowed_cascades", "Root owners whose cascades are slowed, because they have spent their envelope.")
	m.deferred = f.Gauge("deletions_deferred", "Deletions that wait, because their cascade is slowed or the circuit breaker is open.")
	m.Registry.MustRegister(&m.scraped, program.BuildInfo(),
		// The graph is nearly all of the live heap.
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: liveHeap})),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.zero()
	return m
}

// zero creates every series, so that a rate over it is right from the start.
func (m *Metrics) zero() {
	for _, verb := range []gc.Verb{gc.Delete, gc.RemoveReferences, gc.Unblock, gc.RemoveFinalizer, gc.Record} {
		m.requests.WithLabelValues(verb.String())
	}
	for _, verb := range []gc.Verb{gc.Verify, gc.Read, gc.Bound} {
		m.requests.WithLabelValues(verb.String())
		for _, state := range readStates {
			m.reads.WithLabelValues(verb.String(), state)
		}
	}
	for _, state := range []string{stateListing, stateSynced, stateUnreadable, stateReferred} {
		m.types.WithLabelValues(state)
	}
	for _, result := range []string{"done", "failed"} {
		m.inventoryReads.WithLabelValues(result)
		m.discoveries.WithLabelValues(result)
	}
}

var readStates = [...]string{gc.Unknown: "unknown", gc.Exists: "exists", gc.Absent: "absent", gc.TooBusy: "throttled"}

func (m *Metrics) request(v gc.Verb, took time.Duration) {
	m.requests.WithLabelValues(v.String()).Observe(took.Seconds())
}

func (m *Metrics) read(a gc.Action, s gc.State, took time.Duration) {
	m.reads.WithLabelValues(a.Verb.String(), readStates[s]).Inc()
	m.request(a.Verb, took)
}

func histogram(f program.Factory, name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "ebb", Subsystem: f.Subsystem, Name: name, Help: help,
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30},
	}, labels)
	f.Registry.MustRegister(h)
	return h
}
