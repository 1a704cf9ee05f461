package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/jobs"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// withJobs has the API server serve Jobs.
func withJobs(f *fake) {
	f.types = append(f.types, gc.Type{APIVersion: "batch/v1", Kind: "Job", Resource: "jobs", Namespaced: true})
}

// jobs makes n of them that finish now, with a TTL.
func (b *fixture) jobs(n int, ttl time.Duration) (list []gc.Object) {
	b.t.Helper()
	seconds := int32(ttl / time.Second)
	for i := range n {
		b.api.mu.Lock()
		uid := fmt.Sprintf("job-%d-%d", b.api.version, i)
		b.api.fields[uid] = jobs.Job{TTL: &seconds, Ended: true, Finished: time.Now()}
		b.api.mu.Unlock()
		list = append(list, b.api.put(gc.Object{APIVersion: "batch/v1", Kind: "Job", Namespace: "a", Name: uid, UID: uid}))
	}
	b.after(100 * time.Millisecond)
	return list
}

// found returns the findings of all collectors except the owner collector for an object.
func (b *fixture) found(o gc.Object) (list []Found) {
	b.t.Helper()
	key := at(o)
	key.UID = o.UID
	x, err := b.c.Explain(b.t.Context(), key)
	if err != nil {
		b.t.Fatal(err)
	}
	return x.Collectors
}

// deletions that were sent of objects of some kinds.
func (b *fixture) deletions(kinds ...string) (n int) {
	defer b.api.lock()()
	for _, a := range b.api.sent {
		if a.Verb == gc.Delete && slices.Contains(kinds, a.Object.Kind) {
			n++
		}
	}
	return n
}

// collecting Jobs alone.
func collecting(m config.Mode) func(*config.Config) {
	return func(c *config.Config) {
		for _, other := range Collectors() {
			c.Collectors.SetMode(other, config.Off)
		}
		c.Collectors.Jobs.Mode = m
	}
}

// TestCollectors: a collector acts when it is due, through the gate, and only in mode enforce.
// When it is off, it reads nothing.
func TestCollectors(t *testing.T) {
	inBubble(t, collecting(config.Observe), withJobs, func(b *fixture) {
		list := b.jobs(50, time.Minute)
		b.want("explained", b.found(list[0])[0].Reason, jobs.TTL)
		b.metric("collector_objects", 50)
		planned := func(within time.Duration) string {
			all, err := b.c.Collectors(b.t.Context(), within, 2)
			if err != nil || len(all) != 1 {
				b.t.Fatalf("%v, %v", all, err)
			}
			return fmt.Sprint(all[0].Collector, " ", all[0].Mode, " ", all[0].Objects, " ", all[0].Due, " ", len(all[0].First))
		}
		b.want("planned within half a minute", planned(30*time.Second), "jobs observe 50 0 0")
		b.want("planned within an hour", planned(time.Hour), "jobs observe 50 50 2")
		b.after(time.Hour)
		b.want("still planned, as it was withheld", planned(0), "jobs observe 50 50 2")
		b.want("sent", len(b.api.sent), 0)
		b.want("logged", b.logged("would have been deleted"), 50)
		last := b.c.gate.Decisions()[0]
		b.want("decision", last.Collector+" "+last.Result+" "+last.Verb+" "+last.Policy, "jobs observed delete Foreground")
		b.configure(collecting(config.Off))
		b.after(time.Second)
		b.want("explained while off", len(b.found(list[0])), 0)
		b.configure(func(c *config.Config) { collecting(config.Enforce)(c); c.Mode = config.Observe })
		b.after(time.Second)
		b.want("sent while the controller observes", len(b.api.sent), 0)
		b.configure(collecting(config.Enforce))
		b.after(time.Minute)
		b.want("left", b.left(list), 0)
		b.want("deletions", b.deletions("Job"), 50)
		later := b.jobs(1, time.Hour)
		b.after(time.Hour - time.Second)
		b.want("left before its moment", b.left(later), 1)
		b.after(2 * time.Second)
		b.want("left after it", b.left(later), 0)
	})
}

// TestCollectorsAreBounded: what a collector deletes is counted by the circuit breaker, by an
// envelope of its own, and leaves room for owners.
func TestCollectorsAreBounded(t *testing.T) {
	inBubble(t, func(c *config.Config) {
		collecting(config.Enforce)(c)
		c.CollectorEnvelope = config.Envelope{Burst: 100, PerMinute: 60}
	}, withJobs, func(b *fixture) {
		list := b.jobs(200, time.Minute)
		b.after(61 * time.Second)
		if left := b.left(list); left < 90 || left > 100 {
			t.Errorf("%d left with an envelope of 100", left)
		}
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 50)
		b.api.remove(owner, gc.Background)
		b.after(time.Second)
		b.want("pods left", b.left(pods), 0)
		b.after(2 * time.Minute)
		b.want("jobs left", b.left(list), 0)
		b.want("deletions", b.deletions("Job", "Pod"), 250)
		b.want("logged", b.logged("a cascade is slowed"), 1)
	})
}

// TestBacklogOfACollector: the first day of a collector, with far more Jobs due than the circuit breaker
// allows, and two Pods of each. It stays closed, and cascades of people do not wait.
func TestBacklogOfACollector(t *testing.T) {
	inBubble(t, func(c *config.Config) {
		collecting(config.Enforce)(c)
		c.CircuitBreaker = config.CircuitBreaker{Deletions: 1000, Window: config.Duration(10 * time.Minute)}
		c.Envelope = config.Envelope{Burst: 200, PerMinute: 24}
		c.CollectorEnvelope = config.Envelope{Burst: 200, PerMinute: 48}
	}, withJobs, func(b *fixture) {
		begun := time.Now()
		list := b.jobs(1000, time.Hour)
		var pods []gc.Object
		for _, job := range list {
			pods = append(pods, b.pods(job, 2)...)
		}
		b.after(time.Hour + 2*time.Second - time.Since(begun))
		// Jobs and Pods have one root.
		cascades, err := b.c.Cascades(b.t.Context())
		if err != nil || len(cascades) != 1 || cascades[0].Root.Name != "jobs" || cascades[0].Deletions < 200 || !cascades[0].Slowed {
			b.t.Errorf("cascades: %+v, %v", cascades, err)
		}
		for range 12 {
			b.after(10 * time.Minute)
			b.want("what holds it", b.c.gate.Status(), "")
			owner := b.api.put(set("s"))
			own := b.pods(owner, 100)
			b.api.remove(owner, gc.Background)
			b.after(time.Second)
			b.want("left of what a person deleted", b.left(own), 0)
		}
		if gone := 3000 - b.left(list) - b.left(pods); gone < 2500 {
			t.Errorf("only %d of 3000 went in two hours", gone)
		}
	})
}

// ofCollector returns how many deletions of Pods had the collector of Jobs as their root.
func (b *fixture) ofCollector() (n int) {
	defer b.api.lock()()
	for _, a := range b.api.sent {
		if a.Verb == gc.Delete && a.Object.Kind == "Pod" && a.Root.IsCollector() {
			n++
		}
	}
	return n
}

// TestJobsDoNotSlowThemselves: the Pods of Jobs that a collector deleted are no cascade that the collector has
// to wait for.
func TestJobsDoNotSlowThemselves(t *testing.T) {
	inBubble(t, collecting(config.Enforce), withJobs, func(b *fixture) {
		var pods []gc.Object
		for _, job := range b.jobs(10, time.Minute) {
			pods = append(pods, b.pods(job, 3)...)
		}
		b.after(2 * time.Minute)
		b.want("Pods left", b.left(pods), 0)
		b.want("deleted with the collector as their root", b.ofCollector(), len(pods))
		b.want("time of a cascade", b.c.collectors.lastCascade, time.Time{})
		owner := b.api.put(set("s"))
		b.pods(owner, 1)
		b.api.remove(owner, gc.Background)
		b.after(time.Minute)
		b.want("a cascade was seen", b.c.collectors.lastCascade.IsZero(), false)
	})
}

// TestRootOfALostAnswer: a DELETE that took effect although its answer is lost leaves Pods behind that belong
// to the collector.
func TestRootOfALostAnswer(t *testing.T) {
	inBubble(t, collecting(config.Enforce), func(f *fake) {
		withJobs(f)
		f.do = func(a gc.Action) *metadata.Outcome {
			if a.Verb != gc.Delete || a.Object.Kind != "Job" {
				return nil
			}
			f.remove(*f.objects[bare(a.Object)], a.Policy)
			return &metadata.Outcome{Err: errors.New("the request timed out")}
		}
	}, func(b *fixture) {
		b.api.took = time.Second // the answer is there before a Pod goes
		job := b.jobs(1, time.Minute)[0]
		pods := b.pods(job, 5)
		b.after(2 * time.Minute)
		b.want("left", b.left(pods), 0)
		b.want("deleted with the collector as their root", b.ofCollector(), 5)
	})
}

// TestRootsAfterALeaderChange: what the collector has left behind belongs to it under the next leader, too.
// What a person deletes does not.
func TestRootsAfterALeaderChange(t *testing.T) {
	m := &memory{}
	inBubbleWith(t, m, func(c *config.Config) {
		collecting(config.Enforce)(c)
		c.CollectorEnvelope = config.Envelope{Burst: 20, PerMinute: 6}
	}, withJobs, func(b *fixture) {
		begun := time.Now()
		due, later := b.jobs(20, time.Minute), b.jobs(1, time.Hour)[0]
		var pods []gc.Object
		for _, job := range due {
			pods = append(pods, b.pods(job, 2)...)
		}
		others := b.pods(later, 5)
		b.after(time.Minute + 2*time.Second - time.Since(begun))
		if b.left(pods) < 20 || b.deletions("Job") < 5 {
			t.Fatal("the envelope was to be spent with Pods left behind")
		}
		b.succeed(nil, m)
		b.api.remove(later, gc.Foreground)
		b.after(time.Minute)
		b.want("left of what a person deleted", b.left(others), 0)
		b.after(time.Hour)
		b.want("left", b.left(append(pods, due...)), 0)
		b.want("deleted with the collector as their root", b.ofCollector(), 40)
	})
}

// TestCollectorTurnedOffMeanwhile: an answer to one that was turned off, and on again, is
// not taken for the new one's.
func TestCollectorTurnedOffMeanwhile(t *testing.T) {
	inBubble(t, collecting(config.Enforce), func(f *fake) { withJobs(f); f.hang = 10 * time.Second }, func(b *fixture) {
		list := b.jobs(5, time.Second)
		b.after(2 * time.Second) // the requests are on their way
		b.configure(collecting(config.Off))
		b.configure(collecting(config.Enforce))
		b.after(time.Minute)
		b.want("left", b.left(list), 0)
		b.want("in flight", b.c.collectors.inFlight, 0)
	})
}

// TestTurns: with one request at a time, owners and collectors take turns.
func TestTurns(t *testing.T) {
	inBubble(t, func(c *config.Config) {
		collecting(config.Enforce)(c)
		c.Concurrency = config.Concurrency{Start: 1, Max: 1}
	}, func(f *fake) { withJobs(f); f.hang = 10 * time.Millisecond }, func(b *fixture) {
		list := b.jobs(20, 2*time.Second)
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 500)
		b.after(time.Second)
		b.api.remove(owner, gc.Background)
		b.after(2 * time.Second)
		if sent, of := b.deletions("Job"), b.left(pods); sent != 20 || of == 0 || of > 400 {
			t.Errorf("%d Jobs of 20 are deleted, and %d Pods of 500 are left: they did not take turns", sent, of)
		}
		b.after(time.Minute)
		b.want("left", b.left(list)+b.left(pods), 0)
	})
}
