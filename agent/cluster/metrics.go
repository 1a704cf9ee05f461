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
	m.nodes = f.Gauge("graph_nodes", "Objects that are tracked, and owners that were never seen.")
	m.queued = f.Gauge("queue_length", "Objects that are to be looked at.")
	m.inFlight = f.Gauge("requests_in_flight", "Requests of workers on their way.")
	m.limit = f.Gauge("request_concurrency_limit", "How many may be at present.")
	m.throttled = f.Counter("requests_throttled_total", "Answers that said 429.")
	m.volumeCalls = f.Counters("volume_calls_total", "Calls of CSI drivers that were to delete a volume, by what came of them.", "driver", "result")
	m.actions = f.Counters("actions_total", "Changes asked for, by whom, what, why and how it went.", "collector", "verb", "reason", "result")
	m.deletions = f.Counters("deletions_total", "Objects deleted, by type; those beyond the first 256 types as other.", "type")
	m.reads = f.Counters("reads_total", "Live reads of owners (verify) and objects (read), by result.", "verb", "state")
	m.requests = histogram(f, "request_duration_seconds", "How long requests took.", "verb")
	m.types = f.Gauges("types", "Types by state.", "state")
	m.discoveries = f.Counters("discoveries_total", "Times the API server was asked which types there are.", "result")
	m.restores = f.Counter("etcd_restores_total", "Times etcd was restored: resourceVersions went backwards, or a list contradicts what was watched.")
	m.events = f.Counters("events_total", "Kubernetes events by what became of them.", "reason", "result")
	m.orphaningHeld = f.Gauge("orphaning_held", "1 while owners wait to be orphaned because the journal of orphaned owners cannot be written.")
	m.journalEntries = f.Gauge("orphan_journal_entries", "Orphaned owners that the journal has.")
	m.journalHolders = f.Gauge("orphan_journal_blocking_types", "Types that could not be read when old entries were last to go from the journal of orphaned owners.")
	m.journalWrites = f.Counters("orphan_journal_writes_total", "Writes of the journal of orphaned owners by how they went.", "result")
	m.skipped = f.Counter("objects_skipped_total", "Objects of other API servers that cannot be followed, each time one was seen: without a UID, for instance.")
	m.givenUp = f.Counter("foreground_deletions_incomplete_total", "Foreground deletions that ended although a type could not be listed.")
	m.leader = f.Gauge("leader", "1 while this instance acts.")
	m.observing = f.Gauge("observing", "1 in mode observe, in which nothing is changed until the configuration says mode: enforce.")
	m.enforcing = f.Gauges("collector_enforcing", "1 while a collector beside the one of owners may change something: its mode and the controller's are enforce.", "collector")
	m.paused = f.Gauge("paused", "1 while paused by hand or by configuration.")
	m.tripped = f.Gauge("circuit_breaker_open", "1 after too many deletions, until a person closes it. All else goes on.")
	m.unconfirmed = f.Gauge("restore_unconfirmed", "1 while a collector that is on waits for a person to confirm what came back with a backup of etcd. The others go on.")
	m.inventoryReads = f.Counters("inventory_reads_total", "Times the inventory of machines was read, by how it went.", "result")
	m.inventoryTime = f.Gauge("inventory_timestamp_seconds", "When the last inventory of machines that could be read was made, by its own word, in Unix time.")
	m.inventorySize = f.Gauge("inventory_machines", "Machines in it.")
	m.trips = f.Counter("circuit_breaker_trips_total", "Times there were too many deletions.")
	m.slowed = f.Gauge("slowed_cascades", "Root owners whose cascades are slowed, because they have spent their envelope.")
	m.slowdowns = f.Counter("cascade_slowdowns_total", "Times a cascade was slowed.")
	m.deferred = f.Gauge("deletions_deferred", "Deletions that wait because their cascade is slowed, or because the circuit breaker is open.")
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
	for _, verb := range []gc.Verb{gc.Verify, gc.Read} {
		m.requests.WithLabelValues(verb.String())
		for _, state := range readStates {
			m.reads.WithLabelValues(verb.String(), state)
		}
	}
	for _, r := range registry {
		m.enforcing.WithLabelValues(r.name.String())
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
