package volumes

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// reported are the reasons for which an operator should look at an object.
var reported = map[gc.Reason]bool{
	ProvisionerGone: true, DriverGone: true, NotProvisioned: true, OtherClaim: true, Shared: true, ReclaimFailed: true, SecretUnclear: true, SinceUnknown: true, NodeGone: true, TooManyLost: true, PodsBound: true,
}

// Counts returns the number of objects by reason.
func (c *Collector) Counts(time.Time) map[gc.Reason]int {
	counts := make(map[gc.Reason]int)
	for e := range c.Objects().All {
		why, _ := c.decide(e)
		counts[why]++
	}
	return counts
}

// Reported returns the first kept objects that an operator should look at, by kind and name;
// most is their maximum number.
func (c *Collector) Reported(most int) (list []gc.Planned) {
	for e := range c.Objects().All {
		f, _ := c.Explain(gc.Coordinates{UID: e.UID})
		if f.Due.IsZero() && (reported[f.Reason] || e.volume != nil && e.terminating) {
			p := gc.Planned{Object: c.Objects().Coordinates(e), Finding: f}
			if e.volume != nil {
				p.Detail = e.volume.detail()
			}
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b gc.Planned) int {
		return cmp.Or(cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	return list[:min(most, len(list))]
}
