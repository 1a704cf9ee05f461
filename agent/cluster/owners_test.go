package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/policy/gc"
)

// jobsWithout has Jobs enforced, and owners in another mode.
func jobsWithout(owners config.Mode) func(*config.Config) {
	return func(c *config.Config) {
		collecting(config.Enforce)(c)
		c.Collectors.Owners.Mode = owners
	}
}

// TestOwnersObserved: another collector enforces while owners are observed. What lost its owners is
// reported, and neither changed nor written into the journal. A change of the mode is taken at once.
func TestOwnersObserved(t *testing.T) {
	inBubble(t, jobsWithout(config.Observe), withJobs, func(b *fixture) {
		owner, orphaned := b.api.put(set("s")), b.api.put(set("orphaned"))
		dependents := append(b.pods(owner, 3), b.pods(orphaned, 3)...)
		elsewhere := b.api.put(gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "b", Name: "misplaced",
			Owners: []gc.Reference{{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}}})
		b.after(time.Minute)
		b.api.remove(owner, gc.Background)
		b.api.remove(orphaned, gc.Orphan)
		list := b.jobs(5, time.Minute)
		b.after(time.Hour)
		b.want("deletions", b.deletions("Job"), 5)
		b.want("other requests", len(b.api.sent), 5)
		b.want("dependents left", b.left(append(dependents, elsewhere)), 7)
		b.want("why one is there", b.explain(dependents[0]), "owners_absent")
		b.want("events", len(b.api.notices), 0)
		b.want("writes of the journal", b.puts(), 0)
		b.configure(jobsWithout(config.Enforce))
		b.after(time.Minute)
		b.want("dependents of the owner left", b.left(dependents[:3]), 0)
		b.want("orphaned dependents left", b.left(dependents[3:]), 3)
		b.want("Jobs left", b.left(list), 0)
		b.want("stored", b.stored(), 1)
	})
}

// TestOwnersOff: only the types of the collectors are watched, and the journal is not asked for.
func TestOwnersOff(t *testing.T) {
	inBubble(t, jobsWithout(config.Off), withJobs, func(b *fixture) {
		owner := b.api.put(set("s"))
		dependents := b.pods(owner, 3)
		b.api.remove(owner, gc.Background)
		b.jobs(5, time.Minute)
		b.after(time.Hour)
		b.want("deletions", b.deletions("Job"), 5)
		b.want("requests", len(b.api.sent), 5)
		b.want("dependents left", b.left(dependents), 3)
		b.want("writes of the journal", b.puts(), 0)
		b.want("state", b.c.gate.Status(), "")
		followed := func() (names []string) {
			types, err := b.c.Types(b.t.Context())
			b.want("error", err, nil)
			for _, s := range types {
				if s.State != stateReferred {
					names = append(names, s.Type+" "+s.State)
				}
			}
			return names
		}
		b.want("followed", followed(), []string{"jobs.batch synced"})
		b.metric("graph_nodes", 0)

		withPods := func(c *config.Config) {
			jobsWithout(config.Off)(c)
			c.Collectors.Pods.Mode, c.Collectors.Jobs.Mode = config.Observe, config.Off
		}
		b.configure(withPods)
		b.after(time.Minute)
		b.want("followed with another collector", followed(), []string{"pods synced"})
		b.configure(jobsWithout(config.Off))
		list := b.jobs(1, time.Minute)
		b.after(time.Hour)
		b.want("deletions", b.deletions("Job"), 6)
		b.want("known", len(b.found(list[0])), 1)

		on := enforcing()
		if err := b.c.Configure(b.t.Context(), on); err == nil || !strings.Contains(err.Error(), "needs a restart") {
			b.t.Errorf("owners switched on: %v", err)
		}
		b.want("mode", b.c.gate.Settings().ModeOf(gc.Owners), config.Off)
	})
}

// TestBreakerBesideObservedOwners: an open circuit breaker holds what would be deleted, and not what is
// only reported. Observed owners do not slow the other collectors down either.
func TestBreakerBesideObservedOwners(t *testing.T) {
	breaker := func(c *config.Config) { c.CircuitBreaker.Deletions = 3 }
	inBubble(t, breaker, withJobs, func(b *fixture) {
		owner, later := b.api.put(set("s")), b.api.put(set("later"))
		b.pods(owner, 5)
		more := b.pods(later, 4)
		b.api.remove(owner, gc.Background)
		b.after(time.Minute)
		b.metric("circuit_breaker_open", 1)
		b.metric("deletions_deferred", 2)
		b.configure(func(c *config.Config) { breaker(c); jobsWithout(config.Observe)(c) })
		b.after(time.Minute)
		b.c.collectors.lastCascade = time.Time{}
		b.api.remove(later, gc.Background)
		b.after(time.Minute)
		b.metric("deletions_deferred", 0)
		b.want("decisions about owners", b.observed(gc.Owners), 2+len(more))
		if last := b.c.collectors.lastCascade; !last.IsZero() {
			t.Errorf("a cascade at %v", last)
		}
	})
}

// observed decisions of a collector.
func (b *fixture) observed(by gc.Collector) (n int) {
	for _, d := range b.c.Decisions() {
		if d.Collector == by.String() && d.Result == gate.Observed {
			n++
		}
	}
	return n
}
