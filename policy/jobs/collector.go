package jobs

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Collector knows all Jobs and when each is to go. It is not safe for concurrent use.
type Collector struct {
	config  Config
	t       gc.Type
	jobs    gc.Objects[*kept]
	queue   gc.Queue[*kept]
	current bool // Jobs were listed, and can be read since
	now     time.Time
}

// kept is what is known of a Job. There may be many: it is small.
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
func New(config Config) *Collector { return &Collector{config: config} }

// Configure takes another configuration: all Jobs are judged anew.
func (c *Collector) Configure(now time.Time, config Config) {
	c.now, c.config = now, config
	c.planAll()
}

// Listing says that a list of Jobs begins.
func (c *Collector) Listing(now time.Time, t gc.Type) {
	c.now, c.t = now, t
	c.jobs.Listing()
}

// Observe takes a Job as a list or a watch tells it. fields is a [Job].
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	c.now, c.t = now, t
	e, changed := c.jobs.Observe(o, func() *kept { return new(kept) })
	if !changed {
		return
	}
	job, _ := fields.(Job) // the zero value is never collected
	e.set(o, job)
	c.queue.Changed(e)
	c.plan(e)
}

func (e *kept) set(o gc.Object, job Job) {
	e.owned, e.terminating = len(o.Owners) > 0, o.Terminating
	e.ended, e.finished = job.Ended, gc.StampOf(job.Finished)
	if e.hasTTL = job.TTL != nil; e.hasTTL {
		e.ttl = *job.TTL
	}
}

// Forget takes a DELETED event.
func (c *Collector) Forget(now time.Time, _ gc.Type, o gc.Object) {
	c.now = now
	if e, known := c.jobs.Forget(o.UID); known {
		c.queue.Drop(e)
	}
}

// Synced says that Jobs are known up to now.
func (c *Collector) Synced(now time.Time, t gc.Type) {
	c.now, c.t = now, t
	c.jobs.Synced(c.queue.Drop)
	c.become(true)
}

// Unreadable says that Jobs cannot be listed or watched now: what is known of them is
// old, and nothing is asked for.
func (c *Collector) Unreadable(now time.Time, _ gc.Type) {
	c.now = now
	c.become(false)
}

// Restored forgets everything: etcd was restored.
func (c *Collector) Restored(now time.Time) {
	c.now = now
	c.jobs.Restored(c.queue.Drop)
	c.current = false
}

func (c *Collector) become(current bool) {
	if c.current != current {
		c.current = current
		c.planAll()
	}
}

// Ready gives the Jobs that are due, those due longest first.
func (c *Collector) Ready(now time.Time, most int) []gc.Action {
	c.now = now
	return c.queue.Ready(now, most, c.ask)
}

// ask has the Job go as its TTL-after-finished controller does: its Pods go first.
func (c *Collector) ask(e *kept) (gc.Action, bool) {
	why, due := c.decide(e)
	return gc.Action{
		Collector: Name, Verb: gc.Delete, Policy: gc.Foreground, Reason: why,
		Object: e.Coordinates(c.t), ResourceVersion: e.ResourceVersion,
	}, !due.IsZero()
}

// Answered takes nothing: nothing is ever read.
func (c *Collector) Answered(now, _ time.Time, _ uint64, _ gc.Answer) { c.now = now }

// Patched takes nothing: nothing is ever patched.
func (c *Collector) Patched(now time.Time, _ uint64, _ gc.Object) { c.now = now }

// Finished takes how an action went.
func (c *Collector) Finished(now time.Time, id uint64, r gc.Result) {
	c.now = now
	c.queue.Finished(now, id, r)
}

// Next is when Ready has more to say; zero: not by itself.
func (c *Collector) Next() time.Time { return c.queue.Next() }

// Slow says that few are wanted, and none before a moment.
func (c *Collector) Slow(now, until time.Time, most int) {
	c.now = now
	c.queue.Slow(now, until, most)
}

// Hold has nothing asked for while it is on.
func (c *Collector) Hold(now time.Time, on bool) {
	c.now = now
	c.queue.Hold(on)
}

// Release has asked for again what was withheld.
func (c *Collector) Release(now time.Time) {
	c.now = now
	c.queue.Release(c.jobs.All)
}

// Explain says why a Job goes, and when, or why it is kept.
func (c *Collector) Explain(o gc.Coordinates) (gc.Finding, bool) {
	e := c.jobs.Get(o.UID)
	if e == nil {
		return gc.Finding{}, false
	}
	why, due := c.decide(e)
	if !due.IsZero() && e.finished.Time().After(c.now) {
		why = FinishedInFuture
	}
	return e.Find(why), true
}

// Len is how many Jobs are known.
func (c *Collector) Len() int { return c.jobs.Len() }
