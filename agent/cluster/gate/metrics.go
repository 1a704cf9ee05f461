package gate

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

const (
	// MaxTypes bounds the types that metrics name. Those beyond it count as OtherTypes.
	MaxTypes   = 256
	OtherTypes = "other"
)

// Metrics are what the gate exports.
type Metrics struct {
	observing, paused, tripped, unconfirmed prometheus.Gauge
	trips, slowdowns                        prometheus.Counter
	actions, deletions, volumeCalls         *prometheus.CounterVec
	enforcing                               *prometheus.GaugeVec
	collectors                              []gc.Collector

	mu    sync.Mutex
	named map[string]prometheus.Counter // deletions by type
}

// NewMetrics registers the metrics of the gate, for these collectors.
func NewMetrics(f program.Factory, collectors []gc.Collector) *Metrics {
	m := &Metrics{collectors: collectors, named: map[string]prometheus.Counter{}}
	m.volumeCalls = f.Counters("volume_calls_total", "Calls of CSI drivers to delete a volume, by result.", "driver", "result")
	m.actions = f.Counters("actions_total", "Changes that were requested, by collector, verb, reason and result.", "collector", "verb", "reason", "result")
	m.deletions = f.Counters("deletions_total", "Deleted objects, by type. Types beyond the first 256 count as other.", "type")
	m.observing = f.Gauge("observing", "1 in mode observe. The controller changes nothing until the configuration sets mode: enforce.")
	m.enforcing = f.Gauges("collector_enforcing", "1 while a collector may change something: its mode and the controller's mode are enforce.", "collector")
	m.paused = f.Gauge("paused", "1 while the controller is paused, by hand or by configuration.")
	m.tripped = f.Gauge("circuit_breaker_open", "1 after too many deletions, until a person closes it. The controller deletes nothing then. Everything else continues.")
	m.unconfirmed = f.Gauge("restore_unconfirmed", "1 while a collector that is on waits until a person confirms an etcd restore. The other collectors continue.")
	m.trips = f.Counter("circuit_breaker_trips_total", "Times the circuit breaker opened, because there were too many deletions.")
	m.slowdowns = f.Counter("cascade_slowdowns_total", "Times a cascade was slowed.")
	m.zero()
	return m
}

// reasonsOf are the reasons that an action of the collector of owners can have, by verb.
var reasonsOf = map[gc.Verb][]gc.Reason{
	gc.Delete:           {cascade.OwnersAbsent, cascade.OwnersWaiting},
	gc.RemoveReferences: {cascade.ReferencesStale, cascade.OwnerOrphans},
	gc.Unblock:          {cascade.CircleOfOwners},
	gc.RemoveFinalizer:  {cascade.DependentsGone, cascade.TypesGivenUp},
	gc.Record:           {cascade.OrphaningBegins},
}

// zero creates every series, so that a rate over it is right from the start.
func (m *Metrics) zero() {
	results := []string{Observed, Paused, Tripped, Slowed, Unsaved, Excluded, Closed, Unrecorded, Unconfirmed, Uncertain}
	for r := gc.Failed; r <= gc.TooMany; r++ {
		results = append(results, r.String())
	}
	for verb, reasons := range reasonsOf {
		for _, reason := range reasons {
			for _, result := range results {
				m.actions.WithLabelValues(gc.Owners.String(), verb.String(), string(reason), result)
			}
		}
	}
	for _, name := range m.collectors {
		m.enforcing.WithLabelValues(name.String())
	}
}

func (m *Metrics) action(a gc.Action, result string) {
	m.actions.WithLabelValues(a.Collector.String(), a.Verb.String(), string(a.Reason), result).Inc()
	if a.Verb == gc.Delete && result == gc.Done.String() {
		m.deletionsOf(a.Object).Inc()
	}
}

// deletionsOf finds the counter of a type.
func (m *Metrics) deletionsOf(o gc.Coordinates) prometheus.Counter {
	name := schema.GroupResource{Group: gc.GroupOf(o.APIVersion), Resource: o.Resource}.String()
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.named[name]
	if c == nil {
		if len(m.named) >= MaxTypes {
			name = OtherTypes
		}
		name = strings.Clone(name)
		c = m.deletions.WithLabelValues(name)
		m.named[name] = c
	}
	return c
}
