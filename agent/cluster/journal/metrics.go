package journal

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/program"
)

// Metrics are what a [Keeper] exports.
type Metrics struct {
	held, entries, holders prometheus.Gauge
	writes                 *prometheus.CounterVec
}

// NewMetrics registers the metrics of a [Keeper].
func NewMetrics(f program.Factory) *Metrics {
	return &Metrics{
		held:    f.Gauge("orphaning_held", "1 while owners wait to be orphaned because the journal of orphaned owners cannot be written."),
		entries: f.Gauge("orphan_journal_entries", "Entries in the journal of orphaned owners."),
		holders: f.Gauge("orphan_journal_blocking_types", "Types that could not be read at the last removal of old entries from the journal of orphaned owners."),
		writes:  f.Counters("orphan_journal_writes_total", "Writes of the journal of orphaned owners, by result.", "result"),
	}
}

// wrote counts a write, and sets the number of entries.
func (m *Metrics) wrote(entries int, err error) {
	m.entries.Set(float64(entries))
	result := "done"
	if err != nil {
		result = "failed"
	}
	m.writes.WithLabelValues(result).Inc()
}
