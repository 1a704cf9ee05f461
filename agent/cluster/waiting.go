package cluster

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Waiting is how many owners have been deleted and wait for the collector's part.
func (c *Controller) Waiting(ctx context.Context) (foreground, orphan int, err error) {
	err = c.query(ctx, func(time.Time) { foreground, orphan = c.collector.Waiting() })
	return foreground, orphan, err
}

// answerScrapes has the loop asked, from now on, for what a scrape shows.
func (c *Controller) answerScrapes() {
	types, waiting := c.Types, c.Waiting
	c.metrics.ask.Store(&types)
	c.metrics.askWaiting.Store(&waiting)
}

// waitingCollector asks the loop how many owners wait, when it is scraped. One alone
// is nothing: that they stay, and none goes, is what an alert looks for.
type waitingCollector struct{ m *Metrics }

var descWaiting = prometheus.NewDesc("ebb_controller_owners_waiting",
	"Deleted owners that have a collector's finalizer: foregroundDeletion until their dependents are gone, orphan until these are orphaned.", []string{"finalizer"}, nil)

func (c *waitingCollector) Describe(out chan<- *prometheus.Desc) { out <- descWaiting }

func (c *waitingCollector) Collect(out chan<- prometheus.Metric) {
	ask := c.m.askWaiting.Load()
	if ask == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	foreground, orphan, err := (*ask)(ctx)
	if err != nil {
		return // a standby has no graph
	}
	out <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, float64(foreground), gc.ForegroundFinalizer)
	out <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, float64(orphan), gc.OrphanFinalizer)
}
