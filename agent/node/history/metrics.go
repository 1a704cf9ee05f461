package history

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/program"
)

type metrics struct {
	appended *prometheus.CounterVec
	failures prometheus.Counter
	lost     prometheus.Counter
	late     prometheus.Counter
}

func newMetrics(r *prometheus.Registry) *metrics {
	f := program.Factory{Registry: r, Subsystem: "node"}
	m := &metrics{
		appended: f.Counters("history_entries_total", "Entries written to the history, by kind: removals (in mode observe, those that would have been made), refusals.", "kind"),
		failures: f.Counter("history_write_failures_total", "Writes of the history that failed. Their entries wait for the next write."),
		lost:     f.Counter("history_lost_entries_total", "Entries of the history that were dropped, because too many waited."),
		late:     f.Counter("history_late_writes_total", "Times a removal continued before its entry was in the history, because the write took too long."),
	}
	for _, kind := range shelfNames {
		m.appended.WithLabelValues(kind)
	}
	return m
}

var shelfNames = map[bucket]string{removals: "removals", refusals: "refusals"}
