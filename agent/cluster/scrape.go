package cluster

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/policy/gc"
	report "github.com/ebb-agent/ebb/policy/orphans"
)

// scraped has the metrics that the loop counts only when Prometheus scrapes them. A standby, which
// has no graph, reports none.
type scraped struct {
	ask func(context.Context) ([]prometheus.Metric, error)
}

func described(name, help, label string) *prometheus.Desc {
	return prometheus.NewDesc("ebb_controller_"+name, help, []string{label}, nil)
}

var (
	descObjects  = described("objects", "Objects in the graph, by type. Beyond 256 types, the smallest ones count as other.", "type")
	descUnproven = described("owners_unproven",
		"Owners of types of other API servers that seem to be gone, without proof. NotFound came only once, or no other object of the type shows that its server answers correctly.", "reason")
	// One waiting owner is normal. An alert looks for owners that stay while none goes away.
	descWaiting = described("owners_waiting",
		"Deleted owners with a collector's finalizer: foregroundDeletion until their dependents are gone, orphan until their dependents are orphaned.", "finalizer")
	descUnresolved = described("owner_references_unresolved",
		"References to owners that no collector can find: their type is not served, or the owner has a namespace and the object has none. Objects that are being deleted do not count. ebb orphans names them.", "reason")
	descKept     = described("collector_objects", "Objects that a collector of Pods, Jobs and so on keeps. A collector that is off has no series.", "collector")
	descFindings = prometheus.NewDesc("ebb_controller_collector_findings",
		"Objects that a collector reports, by reason: why they go, or why they stay. A collector that is off has no series.", []string{"collector", "reason"}, nil)
)

func (s *scraped) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descObjects, descUnproven, descWaiting, descUnresolved, descKept, descFindings} {
		out <- d
	}
}

func (s *scraped) Collect(out chan<- prometheus.Metric) {
	if s.ask == nil {
		return
	}
	list, err := s.ask(context.Background())
	if err != nil {
		return
	}
	for _, m := range list {
		out <- m
	}
}

// counts returns the metrics of one scrape.
func (c *Controller) counts(ctx context.Context) (list []prometheus.Metric, err error) {
	show := func(d *prometheus.Desc, n int, labels ...string) {
		list = append(list, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...))
	}
	var types []TypeStatus
	if err = c.loop.query(ctx, func(now time.Time) {
		types = c.typesNow()
		foreground, orphan := c.owners.Waiting()
		show(descWaiting, foreground, gc.ForegroundFinalizer)
		show(descWaiting, orphan, gc.OrphanFinalizer)
		unserved, namespaced := c.owners.Unresolved()
		show(descUnresolved, unserved, string(report.OwnerTypeNotServed))
		show(descUnresolved, namespaced, string(report.OwnerNamespaced))
		for _, a := range c.collectors.all {
			show(descKept, a.Len(), a.name.String())
			for why, n := range a.counts(c.serverTime(now)) {
				show(descFindings, n, a.name.String(), string(why))
			}
		}
	}); err != nil {
		return nil, err
	}
	unproven, alone := 0, 0
	for _, t := range types {
		unproven, alone = unproven+t.Unproven, alone+t.Alone
	}
	show(descUnproven, unproven-alone, "not_found_once")
	show(descUnproven, alone, "no_witness")
	for name, n := range objectsByType(types) {
		show(descObjects, n, name)
	}
	return list, nil
}

// counts returns the numbers of objects that a collector reports, by reason; nil if it reports
// none.
func (a *runningCollector) counts(now time.Time) map[gc.Reason]int {
	if of, counts := a.Interface.(interface {
		Counts(now time.Time) map[gc.Reason]int
	}); counts {
		return of.Counts(now)
	}
	return nil
}
