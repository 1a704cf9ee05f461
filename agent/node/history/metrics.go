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
		appended: f.Counters("history_entries_total", "Entries of the history that were written, by kind: removals, refusals.", "kind"),
		failures: f.Counter("history_write_failures_total", "Writes of the history that failed; the entries wait for the next one."),
		lost:     f.Counter("history_lost_entries_total", "Entries that were given up because too many waited."),
		late:     f.Counter("history_late_writes_total", "Times a removal went on although its entry was not in the file yet: the write took too long."),
	}
	for _, kind := range shelfNames {
		m.appended.WithLabelValues(kind)
	}
	return m
}

var shelfNames = map[bucket]string{removals: "removals", refusals: "refusals"}
