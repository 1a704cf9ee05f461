package csrs

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Collector knows all CertificateSigningRequests and PodCertificateRequests, and when each is
// to be deleted. It is not safe for concurrent use.
type Collector struct {
	gc.Collection[*kept]
	config  Config
	signers map[string]*signer
}

// New makes an empty collector.
func New(config Config) *Collector {
	c := &Collector{config: config, signers: make(map[string]*signer)}
	c.Collection = gc.NewCollection(gc.Rules[*kept]{Decide: c.decide, Act: c.act, Gone: c.unsign})
	return c
}

// Configure replaces the configuration and judges all requests again.
func (c *Collector) Configure(now time.Time, config Config) {
	c.SetTime(now)
	c.config = config
	for name, s := range c.signers {
		s.patience = config.with(name)
	}
	c.PlanAll()
}

// Observe receives a request as a list or a watch reported it. fields is a [Request] or a
// [PodRequest]. With the zero value of either, the request is never collected.
func (c *Collector) Observe(now time.Time, t gc.Type, o gc.Object, fields any) {
	c.See(now, t, o, func() *kept { return new(kept) }, func(e *kept) {
		e.terminating = o.Terminating
		if t.Kind == "PodCertificateRequest" {
			p, _ := fields.(PodRequest)
			e.set(Request{Created: p.Created})
			return
		}
		r, _ := fields.(Request)
		c.sign(e, r.Signer)
		e.set(r)
	})
}

func (c *Collector) act(e *kept, why gc.Reason) gc.Action {
	return c.Delete(Name, e, gc.Background, why)
}
