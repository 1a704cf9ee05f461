package volumes

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// reported are the reasons for which somebody should look.
var reported = map[gc.Reason]bool{
	ProvisionerGone: true, DriverGone: true, NotProvisioned: true, OtherClaim: true, Shared: true, ReclaimFailed: true, SecretUnclear: true, SinceUnknown: true, NodeGone: true, TooManyLost: true,
}

// Counts are how many objects there are by what is made of them.
func (c *Collector) Counts(time.Time) map[gc.Reason]int {
	counts := make(map[gc.Reason]int)
	for e := range c.Objects().All {
		why, _ := c.decide(e)
		counts[why]++
	}
	return counts
}

// Reported are objects that stay, and that somebody should look at: so many of them, in
// the order of their kinds and names.
func (c *Collector) Reported(most int) (list []gc.Planned) {
	for e := range c.Objects().All {
		if why, due := c.decide(e); reported[why] && due.IsZero() {
			list = append(list, gc.Planned{Object: c.Objects().Coordinates(e), Finding: e.Find(why)})
		}
	}
	slices.SortFunc(list, func(a, b gc.Planned) int {
		return cmp.Or(cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	return list[:min(most, len(list))]
}
