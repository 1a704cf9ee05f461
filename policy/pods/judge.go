package pods

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// verdict is the decision on a Pod.
type verdict struct {
	reason gc.Reason
	goes   bool
	due    time.Time // when it goes; zero: now
	fail   bool      // it has to be marked as failed first
}

func goes(why gc.Reason) verdict { return verdict{reason: why, goes: true} }
func kept(why gc.Reason) verdict { return verdict{reason: why} }

// judge returns the decision on a Pod by what is known now.
func (c *Collector) judge(p *pod) verdict {
	if p.space.kept != "" {
		return kept(p.space.kept)
	}
	v := c.ofNode(p)
	if v.goes {
		if v.fail = !p.over(); p.futile() {
			return kept(Held)
		}
		return v
	}
	if p.is(terminating) {
		switch {
		case v.reason != "":
			return v
		case p.is(finalizers) && (p.is(noGrace) || p.over()):
			return kept(Held)
		}
		return kept(Terminating)
	}
	if !p.over() {
		if v.reason == "" {
			v.reason = [...]gc.Reason{unknown: PhaseUnknown, pending: Pending, running: Running}[p.phase]
		}
		return v
	}
	ended := c.ofEnd(p)
	if ended.reason == WithinLimits && v.reason != "" {
		ended.reason = v.reason
	}
	return ended
}

// ofNode judges a Pod by the Node that it is bound to. Without a reason, the Node does not
// matter.
func (c *Collector) ofNode(p *pod) verdict {
	n := p.node
	switch {
	case n == nil && p.is(terminating):
		return goes(NeverScheduled)
	case n == nil:
	case !c.nodes.Known() && (!n.present || n.outOfService && p.is(terminating)):
		return kept(NodesUnread)
	case n.present && n.outOfService && p.is(terminating):
		return goes(OutOfService)
	case n.present:
	case n.Held():
		return kept(TooManyLost)
	case (!n.Absent() || p.is(late)) && !p.futile():
		return kept(NodeMissing)
	default:
		return goes(NodeGone)
	}
	return verdict{}
}

// ofEnd judges a Pod that ended.
func (c *Collector) ofEnd(p *pod) verdict {
	limits, over := c.config.Succeeded, gc.Reason("")
	if p.phase == failed {
		limits = c.config.Failed
	}
	for slot, why := range [...]gc.Reason{inAll: OverLimit, inNamespace: OverNamespaceLimit, inOwner: OverOwnerLimit} {
		if over == "" && p.task.places[slot] < 0 {
			over = why
		}
	}
	if over != "" && c.podsRead.complete {
		return goes(over)
	}
	v := kept(WithinLimits)
	if limits.After > 0 {
		v.due = at(p.ended).Add(limits.After)
		if v.goes = !v.due.After(c.now); v.goes {
			v.reason = TimeUp
		}
	}
	if over != "" && !v.goes {
		v.reason = PodsUnread
	}
	return v
}

// Pods to be deleted at once are queued by age. These offsets put evicted Pods before all
// other ended Pods, and force deletions before both: nothing in a cluster is older than a
// century.
const (
	aCentury   = 100 * 365 * 24 * time.Hour
	twoOfThese = 2 * aCentury
)

// rank returns the time under which p is in the queue.
func (c *Collector) rank(p *pod, v verdict) time.Time {
	since := at(p.created)
	if since.After(c.now) {
		since = c.now
	}
	switch v.reason {
	case NodeGone, OutOfService, NeverScheduled:
		return since.Add(-twoOfThese)
	case TimeUp:
		return v.due
	}
	if p.is(evicted) {
		return since.Add(-aCentury)
	}
	return since
}

// plan schedules the next action on p, if there is one.
func (c *Collector) plan(p *pod) {
	v := c.judge(p)
	switch {
	case v.goes:
		c.queue.Schedule(c.taskOf(p), c.rank(p, v))
	case p.task == nil:
	case p.over() || p.task.Find("").InFlight:
		c.queue.Schedule(p.task, v.due)
	default:
		c.queue.Drop(p.task)
		p.task = nil
	}
}

func (c *Collector) planPods(n *node) {
	for _, p := range n.pods {
		c.plan(p)
	}
}

func (c *Collector) planAll() {
	for p := range c.pods.All {
		c.plan(p)
	}
}
