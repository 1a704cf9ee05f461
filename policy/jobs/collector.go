package jobs

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Collector knows all Jobs, when each is to be deleted, and the labels of all Namespaces. It
// is not safe for concurrent use.
type Collector struct {
	gc.Collection[*kept]
	config Config
	spaces gc.Names[map[string]string] // labels of Namespaces
}

// kept is what is known of a Job. There may be many, so it is small.
type kept struct {
	gc.Entry
	finished    gc.Stamp
	ttl         int32
	hasTTL      bool
	ended       bool
	owned       bool
	terminating bool
}

// New makes an empty collector.
func New(config Config) *Collector {
	c := &Collector{config: config}
	c.Collection = gc.NewCollection(gc.Rules[*kept]{Decide: c.decide, Act: c.act})
	c.spaces.Gone = func(name string, _ map[string]string) { c.replan(name) }
	c.spaces.News = c.PlanAll
	c.Beside("Namespace", &c.spaces)
	return c
}

// Configure replaces the configuration and judges all Jobs again.
func (c *Collector) Configure(now time.Time, config Config) {
	c.SetTime(now)
	c.config = config
	c.PlanAll()
}

// Observe receives a Job or a Namespace as a list or a watch reported it. fields is a [Job]
// or a [Namespace].
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	if t.Kind == "Namespace" {
		c.observeNamespace(now, t, o, fields)
		return
	}
	c.See(now, t, o, func() *kept { return new(kept) }, func(e *kept) {
		job, _ := fields.(Job) // a Job with the zero value is never collected
		e.owned, e.terminating = len(o.Owners) > 0, o.Terminating
		e.ended, e.finished = job.Ended, gc.StampOf(job.Finished)
		if e.hasTTL = job.TTL != nil; e.hasTTL {
			e.ttl = *job.TTL
		}
	})
}

// act deletes the Job as its TTL-after-finished controller does: its Pods go first.
func (c *Collector) act(e *kept, why gc.Reason) gc.Action {
	return c.Delete(Name, e, gc.Foreground, why)
}
