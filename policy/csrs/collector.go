package csrs

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Collector knows all requests and when each is to go. It is not safe for concurrent use.
type Collector struct {
	config  Config
	signing requests // CertificateSigningRequests
	pods    requests // PodCertificateRequests
	queue   gc.Queue[*kept]
	signers map[string]*signer
}

// requests are those of one type.
type requests struct {
	gc.Objects[*kept]
	t       gc.Type
	current bool // they were listed, and can be read since
}

// New makes an empty collector.
func New(config Config) *Collector {
	return &Collector{config: config, signers: make(map[string]*signer)}
}

// kind is the requests of a type.
func (c *Collector) kind(t gc.Type) *requests {
	rs := &c.signing
	if t.Kind == "PodCertificateRequest" {
		rs = &c.pods
	}
	rs.t = t
	return rs
}

// of is the requests that e is one of.
func (c *Collector) of(e *kept) *requests {
	if e.signer == nil {
		return &c.pods
	}
	return &c.signing
}

// Configure takes another configuration: all requests are judged anew.
func (c *Collector) Configure(_ time.Time, config Config) {
	c.config = config
	for name, s := range c.signers {
		s.patience = config.with(name)
	}
	c.planAll(&c.signing)
	c.planAll(&c.pods)
}

// Listing says that a list of a type begins.
func (c *Collector) Listing(_ time.Time, t gc.Type) {
	c.kind(t).Listing()
}

// Observe takes a request as a list or a watch tells it. fields is a [Request] or a
// [PodRequest].
func (c *Collector) Observe(_ time.Time, t gc.Type, o gc.Object, fields any) {
	rs := c.kind(t)
	e, changed := rs.Observe(o, func() *kept { return new(kept) })
	if !changed {
		return
	}
	e.terminating = o.Terminating
	if rs == &c.pods {
		p, _ := fields.(PodRequest)
		e.set(Request{Created: p.Created})
	} else {
		r, _ := fields.(Request) // the zero value is never collected
		c.sign(e, r.Signer)
		e.set(r)
	}
	c.queue.Changed(e)
	c.plan(e)
}

// Forget takes a DELETED event.
func (c *Collector) Forget(_ time.Time, t gc.Type, o gc.Object) {
	if e, known := c.kind(t).Forget(o.UID); known {
		c.drop(e)
	}
}

// Synced says that the requests of a type are known up to now.
func (c *Collector) Synced(_ time.Time, t gc.Type) {
	rs := c.kind(t)
	rs.Synced(c.drop)
	c.become(rs, true)
}

// Unreadable says that a type cannot be listed or watched now: what is known of it is
// old, and nothing is asked for.
func (c *Collector) Unreadable(_ time.Time, t gc.Type) {
	c.become(c.kind(t), false)
}

// Restored forgets everything: etcd was restored.
func (c *Collector) Restored(_ time.Time) {
	for _, rs := range []*requests{&c.signing, &c.pods} {
		rs.Restored(c.drop)
		rs.current = false
	}
}

func (c *Collector) become(rs *requests, current bool) {
	if rs.current != current {
		rs.current = current
		c.planAll(rs)
	}
}

func (c *Collector) planAll(rs *requests) {
	for e := range rs.All {
		c.plan(e)
	}
}

// Ready gives the requests that are due, those due longest first.
func (c *Collector) Ready(now time.Time, most int) []gc.Action {
	return c.queue.Ready(now, most, c.ask)
}

func (c *Collector) ask(e *kept) (gc.Action, bool) {
	why, due := c.decide(e)
	return gc.Action{
		Collector: Name, Verb: gc.Delete, Policy: gc.Background, Reason: why,
		Object: e.Coordinates(c.of(e).t), ResourceVersion: e.ResourceVersion,
	}, !due.IsZero()
}

// Answered takes nothing: nothing is ever read.
func (c *Collector) Answered(_, _ time.Time, _ uint64, _ gc.Answer) {}

// Patched takes nothing: nothing is ever patched.
func (c *Collector) Patched(_ time.Time, _ uint64, _ gc.Object) {}

// Finished takes how an action went.
func (c *Collector) Finished(now time.Time, id uint64, r gc.Result) {
	c.queue.Finished(now, id, r)
}

// Next is when Ready has more to say; zero: not by itself.
func (c *Collector) Next() time.Time { return c.queue.Next() }

// Slow says that few are wanted, and none before a moment.
func (c *Collector) Slow(now, until time.Time, most int) {
	c.queue.Slow(now, until, most)
}

// Hold has nothing asked for while it is on.
func (c *Collector) Hold(_ time.Time, on bool) {
	c.queue.Hold(on)
}

// Release has asked for again what was withheld.
func (c *Collector) Release(_ time.Time) {
	c.queue.Release(func(yield func(*kept) bool) {
		for _, rs := range []*requests{&c.signing, &c.pods} {
			for e := range rs.All {
				if !yield(e) {
					return
				}
			}
		}
	})
}

// Explain says why a request goes, and when, or why it is kept.
func (c *Collector) Explain(o gc.Coordinates) (gc.Finding, bool) {
	for _, rs := range []*requests{&c.signing, &c.pods} {
		if e := rs.Get(o.UID); e != nil {
			why, _ := c.decide(e)
			return e.Find(why), true
		}
	}
	return gc.Finding{}, false
}

// Len is how many requests are known.
func (c *Collector) Len() int { return c.signing.Len() + c.pods.Len() }
