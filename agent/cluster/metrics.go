package cluster

import (
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

// typeLabels bounds how many types get series of their own; the others share one.
const typeLabels = 256

var liveHeap = regexp.MustCompile(`^/gc/heap/live:bytes$`)

const otherTypes = "other"

// Metrics is everything that the controller exports; docs/controller-metrics.md is
// generated from the registry. Labels are bounded: types up to a number, names and
// namespaces never.
type Metrics struct {
	Registry *prometheus.Registry

	nodes, queued, inFlight, limit, leader, observing, paused, tripped, unconfirmed, slowed, deferred, orphaningHeld, journalEntries, journalHolders prometheus.Gauge
	throttled, givenUp, restores, trips, slowdowns, skipped                                                                                          prometheus.Counter
	scraped                                                                                                                                          scraped
	inventoryTime, inventorySize                                                                                                                     prometheus.Gauge
	inventoryReads, actions, deletions, reads, discoveries, events, journalWrites                                                                    *prometheus.CounterVec
	volumeCalls                                                                                                                                      *prometheus.CounterVec
	types, enforcing                                                                                                                                 *prometheus.GaugeVec
	requests                                                                                                                                         *prometheus.HistogramVec

	mu    sync.Mutex
	named map[string]prometheus.Counter // deletions by apiVersion and resource
}

// NewMetrics registers everything with a registry of its own.
func NewMetrics() *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), named: map[string]prometheus.Counter{}}
	f := program.Factory{Registry: m.Registry, Subsystem: "controller"}
	m.nodes = f.Gauge("graph_nodes", "Objects in the graph, and owners that were never seen.")
	m.queued = f.Gauge("queue_length", "Objects that wait for a decision.")
	m.inFlight = f.Gauge("requests_in_flight", "Running requests of workers.")
	m.limit = f.Gauge("request_concurrency_limit", "Maximum number of concurrent requests at present.")
	m.throttled = f.Counter("requests_throttled_total", "Answers with the status 429 (too many requests).")
	m.volumeCalls = f.Counters("volume_calls_total", "Calls of CSI drivers to delete a volume, by result.", "driver", "result")
	m.actions = f.Counters("actions_total", "Changes that were requested, by collector, verb, reason and result.", "collector", "verb", "reason", "result")
	m.deletions = f.Counters("deletions_total", "Deleted objects, by type. Types beyond the first 256 count as other.", "type")
	m.reads = f.Counters("reads_total", "Live reads of owners (verify), of objects (read) and of the Pods of a Node (bound), by result.", "verb", "state")
	m.requests = histogram(f, "request_duration_seconds", "Duration of requests in seconds.", "verb")
	m.types = f.Gauges("types", "Types, by state.", "state")
	m.discoveries = f.Counters("discoveries_total", "Times the controller asked the API server which types exist, by result.", "result")
	m.restores = f.Counter("etcd_restores_total", "Restores of etcd that were noticed: resourceVersions went backwards, or a list contradicts the watch.")
	m.events = f.Counters("events_total", "Kubernetes events of the controller, by reason and result.", "reason", "result")
	m.orphaningHeld = f.Gauge("orphaning_held", "1 while owners wait to be orphaned because the journal of orphaned owners cannot be written.")
	m.journalEntries = f.Gauge("orphan_journal_entries", "Entries in the journal of orphaned owners.")
	m.journalHolders = f.Gauge("orphan_journal_blocking_types", "Types that could not be read at the last removal of old entries from the journal of orphaned owners.")
	m.journalWrites = f.Counters("orphan_journal_writes_total", "Writes of the journal of orphaned owners, by result.", "result")
	m.skipped = f.Counter("objects_skipped_total", "Times an object of another API server was seen that cannot be tracked, for example because it has no UID.")
	m.givenUp = f.Counter("foreground_deletions_incomplete_total", "Foreground deletions that ended although a type could not be listed.")
	m.leader = f.Gauge("leader", "1 while this instance acts.")
	m.observing = f.Gauge("observing", "1 in mode observe. The controller changes nothing until the configuration sets mode: enforce.")
	m.enforcing = f.Gauges("collector_enforcing", "1 while a collector may change something: its mode and the controller's mode are enforce.", "collector")
	m.paused = f.Gauge("paused", "1 while the controller is paused, by hand or by configuration.")
	m.tripped = f.Gauge("circuit_breaker_open", "1 after too many deletions, until a person closes it. The controller deletes nothing then. Everything else continues.")
	m.unconfirmed = f.Gauge("restore_unconfirmed", "1 while a collector that is on waits until a person confirms an etcd restore. The other collectors continue.")
	m.inventoryReads = f.Counters("inventory_reads_total", "Times the inventory of machines was read, by result.", "result")
	m.inventoryTime = f.Gauge("inventory_timestamp_seconds", "Unix time in the last inventory of machines that could be read: when it was made.")
	m.inventorySize = f.Gauge("inventory_machines", "Machines in the last inventory that could be read.")
	m.trips = f.Counter("circuit_breaker_trips_total", "Times the circuit breaker opened, because there were too many deletions.")
	m.slowed = f.Gauge("slowed_cascades", "Root owners whose cascades are slowed, because they have spent their envelope.")
	m.slowdowns = f.Counter("cascade_slowdowns_total", "Times a cascade was slowed.")
	m.deferred = f.Gauge("deletions_deferred", "Deletions that wait, because their cascade is slowed or the circuit breaker is open.")
	m.Registry.MustRegister(&m.scraped, program.BuildInfo(),
		// What the graph takes is nearly all of the live heap.
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: liveHeap})),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.zero()
	return m
}

// reasonsOf are the reasons an action of a verb can have.
var reasonsOf = map[gc.Verb][]gc.Reason{
	gc.Delete:           {cascade.OwnersAbsent, cascade.OwnersWaiting},
	gc.RemoveReferences: {cascade.ReferencesStale, cascade.OwnerOrphans},
	gc.Unblock:          {cascade.CircleOfOwners},
	gc.RemoveFinalizer:  {cascade.DependentsGone, cascade.TypesGivenUp},
	gc.Record:           {cascade.OrphaningBegins},
}

// zero makes every series exist, so that a rate over it is true from the start.
func (m *Metrics) zero() {
	results := []string{resultObserved, resultPaused, resultTripped, resultSlowed, resultUnsaved, resultExcluded, resultClosed, resultUnrecorded, resultUnconfirmed, resultUncertain}
	for r := gc.Failed; r <= gc.TooMany; r++ {
		results = append(results, r.String())
	}
	for verb, reasons := range reasonsOf {
		m.requests.WithLabelValues(verb.String())
		for _, reason := range reasons {
			for _, result := range results {
				m.actions.WithLabelValues(gc.Owners.String(), verb.String(), string(reason), result)
			}
		}
	}
	for _, verb := range []gc.Verb{gc.Verify, gc.Read, gc.Bound} {
		m.requests.WithLabelValues(verb.String())
		for _, state := range readStates {
			m.reads.WithLabelValues(verb.String(), state)
		}
	}
	for _, name := range collectorNames() {
		m.enforcing.WithLabelValues(name.String())
	}
	for _, state := range []string{stateListing, stateSynced, stateUnreadable, stateReferred} {
		m.types.WithLabelValues(state)
	}
	for _, result := range []string{"done", "failed"} {
		m.inventoryReads.WithLabelValues(result)
		m.discoveries.WithLabelValues(result)
	}
	for _, reason := range []string{eventNamespace, eventHeld, eventGivenUp, eventTripped, eventChanges, eventSlowed, eventExcluded} {
		for _, result := range []string{"created", "failed", "dropped", "withheld"} {
			m.events.WithLabelValues(reason, result)
		}
	}
}

var readStates = [...]string{gc.Unknown: "unknown", gc.Exists: "exists", gc.Absent: "absent", gc.TooBusy: "throttled"}

func (m *Metrics) action(a gc.Action, result string) {
	m.actions.WithLabelValues(a.Collector.String(), a.Verb.String(), string(a.Reason), result).Inc()
	if a.Verb == gc.Delete && result == gc.Done.String() {
		m.deletionsOf(a.Object).Inc()
	}
}

// deletionsOf finds the counter of a type.
func (m *Metrics) deletionsOf(o gc.Coordinates) prometheus.Counter {
	name := resourceName(o.Resource, gc.GroupOf(o.APIVersion))
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.named[name]
	if c == nil {
		if len(m.named) >= typeLabels {
			name = otherTypes
		}
		name = strings.Clone(name)
		c = m.deletions.WithLabelValues(name)
		m.named[name] = c
	}
	return c
}

func (m *Metrics) request(v gc.Verb, took time.Duration) {
	m.requests.WithLabelValues(v.String()).Observe(took.Seconds())
}

func (m *Metrics) read(a gc.Action, s gc.State, took time.Duration) {
	m.reads.WithLabelValues(a.Verb.String(), readStates[s]).Inc()
	m.request(a.Verb, took)
}

func (m *Metrics) event(reason, result string) { m.events.WithLabelValues(reason, result).Inc() }

// journal notes a write of the journal of orphaned owners.
func (m *Metrics) journal(entries int, err error) {
	m.journalEntries.Set(float64(entries))
	result := "done"
	if err != nil {
		result = "failed"
	}
	m.journalWrites.WithLabelValues(result).Inc()
}

func histogram(f program.Factory, name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "ebb", Subsystem: f.Subsystem, Name: name, Help: help,
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30},
	}, labels)
	f.Registry.MustRegister(h)
	return h
}
