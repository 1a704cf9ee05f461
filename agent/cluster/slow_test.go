package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// The circuit breaker holds deletions alone: finalizers, orphaning and references go on, and what
// is deleted in the foreground ends when its dependents have gone otherwise.
func TestCircuitBreakerHoldsDeletionsAlone(t *testing.T) {
	inBubble(t, func(c *config.Config) { c.CircuitBreaker.Deletions = 10 }, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 30)
		b.api.remove(owner, gc.Background)
		b.after(time.Hour)
		b.want("left", b.left(pods), 20)
		b.want("explained", b.explain(pods[29]), "held")
		b.metric("deletions_deferred", 20)
		empty, orphans, other := b.api.put(set("empty")), b.api.put(set("orphans")), b.api.put(set("other"))
		kept := b.pods(orphans, 5)
		both := gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "both"}
		for _, o := range []gc.Object{other, empty} {
			both.Owners = append(both.Owners, gc.Reference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID})
		}
		both = b.api.put(both)
		b.after(time.Second)
		b.api.remove(empty, gc.Foreground)
		b.api.remove(orphans, gc.Orphan)
		b.after(10 * time.Second)
		b.want("gone", b.left([]gc.Object{empty, orphans}), 0)
		b.want("orphans", b.left(kept), 5)
		b.want("owners", len(b.api.get(both).Owners), 1)
		b.want("state", b.c.gate.Status(), "circuit breaker open: too many deletions")
		b.want("resumed", b.c.Resume(b.t.Context()), "")
		b.after(time.Second)
		b.want("left", b.left(pods), 10)
	})
}

// A message names the root of the cascade.
func TestMessagesNameTheRoot(t *testing.T) {
	inBubble(t, func(c *config.Config) { c.CircuitBreaker.Deletions, c.Envelope.Burst = 40, 30 }, nil, func(b *fixture) {
		owner := b.api.put(set("deployment"))
		child := set("replicaset")
		child.Owners = []gc.Reference{{APIVersion: "apps/v1", Kind: "Set", Name: owner.Name, UID: owner.UID}}
		child = b.api.put(child)
		pods := b.pods(child, 60)
		b.api.remove(owner, gc.Background)
		b.after(100 * time.Millisecond)
		b.want("slowed after", b.left(pods), 31)
		b.want("logged", b.logged(`"a cascade is slowed down; it continues by itself, and other cascades are not affected" reason=envelope root="Set a/deployment" root_uid=`+owner.UID), 1)
		b.want("event on", b.api.notices[0].Object.Name+" "+b.api.notices[0].Reason, "deployment CascadeSlowed")
		b.metric("slowed_cascades", 1)
		x, err := b.c.Explain(b.t.Context(), gc.Coordinates{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: pods[59].Name, UID: pods[59].UID})
		b.want("explained", fmt.Sprint(x.Reason, x.Root.Name, x.Retry.After(time.Now()), err), "sloweddeploymenttrue <nil>")
		list, err := b.c.Cascades(b.t.Context())
		b.want("cascades", fmt.Sprint(len(list), list[0].Root.Name, list[0].Deletions, list[0].Slowed, list[0].Waiting > 20, err), "1deployment30 true true <nil>")
		b.want("decision", fmt.Sprint(b.c.Decisions()[0].Owner.Name, b.c.Decisions()[0].Root.Name), "replicasetdeployment")
		b.after(time.Hour)
		b.want("left", b.left(pods), 21)
		b.want("open", b.logged("root=\"Set a/deployment\" root_uid="+owner.UID+" most=\"Set a/deployment (40)\""), 1)
		last := b.api.notices[len(b.api.notices)-1]
		b.want("event", last.Reason+" "+last.Message, "CircuitBreakerOpen 40 objects were deleted within 10m. Nothing more is deleted until a person runs ebb control resume. "+
			"This one was due because of Set a/deployment. Most were deleted because of Set a/deployment (40).")
	})
}

// One that has spent its envelope goes on at the slope, without a worker and with few
// requests; another one does not notice. A configuration that allows more is in force
// at once.
func TestTwoTenants(t *testing.T) {
	inBubble(t, func(c *config.Config) {
		c.Envelope, c.Concurrency = config.Envelope{Burst: 50, PerMinute: 600}, config.Concurrency{Start: 2, Max: 2}
	}, nil, func(b *fixture) {
		big, small := b.api.put(set("big")), b.api.put(set("small"))
		many, few := b.pods(big, 2000), b.pods(small, 49)
		b.api.remove(big, gc.Background)
		b.after(2 * time.Second)
		left := b.left(many)
		if left > 1950 || left < 1920 {
			t.Errorf("%d of 2000 left", left)
		}
		b.api.remove(small, gc.Background)
		b.after(100 * time.Millisecond)
		b.want("left of the small one", b.left(few), 0)
		for range 15 {
			begin := b.left(many)
			b.after(10 * time.Second)
			if gone := begin - b.left(many); gone < 90 || gone > 110 {
				t.Errorf("%d in 10 s", gone)
			}
		}
		b.want("logged", b.logged("a cascade is slowed"), 1)
		b.c.Pause(b.t.Context())
		left = b.left(many)
		b.after(10 * time.Second)
		b.want("paused", b.left(many), left)
		b.c.Resume(b.t.Context())
		b.after(100 * time.Millisecond)
		if now := b.left(many); now < left-110 { // what has flown off meanwhile
			t.Errorf("%d left before the pause, %d after it", left, now)
		}
		next := b.c.gate.Settings()
		next.Envelope.Burst = 100_000
		b.want("configured", b.c.Configure(b.t.Context(), next), nil)
		b.after(2 * time.Second)
		b.want("left", b.left(many), 0)
		b.after(2 * time.Second)
		b.metric("slowed_cascades", 0)
		b.metric("deletions_deferred", 0)
	})
}

// Deletions that the API server refuses are none.
func TestRefusedDeletionsDoNotCount(t *testing.T) {
	refused := 0
	inBubble(t, func(c *config.Config) { c.CircuitBreaker.Deletions, c.Envelope.Burst = 20, 20 }, func(f *fake) {
		f.do = func(a gc.Action) *metadata.Outcome {
			defer f.lock()()
			if a.Verb == gc.Delete && refused < 500 {
				refused++
				return &metadata.Outcome{Result: gc.Forbidden, Err: errors.New("no")}
			}
			return nil
		}
	}, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 10)
		b.api.remove(owner, gc.Background)
		b.after(100 * time.Hour)
		b.want("left", b.left(pods), 0)
		b.want("refused", refused, 500)
		b.metric("circuit_breaker_open", 0)
	})
}

// From what is excluded only the collector's finalizers are taken, when nothing refers
// to it any more; what does is named, once.
func TestExcludedFinalizers(t *testing.T) {
	inBubble(t, func(c *config.Config) { c.Exclude = config.Exclude{Types: []string{}, Namespaces: []string{"a"}} }, nil, func(b *fixture) {
		job, orphans := b.api.put(set("job")), b.api.put(set("orphans"))
		pods, kept := b.pods(job, 2), b.pods(orphans, 1)
		b.api.remove(job, gc.Foreground)
		b.api.remove(orphans, gc.Orphan)
		b.after(time.Hour)
		b.want("left", b.left(append(pods, kept...)), 3)
		b.want("sent", len(b.api.sent), 0)
		b.want("events", len(b.api.notices), 2)
		for _, n := range b.api.notices {
			b.want("event", n.Reason, "ExcludedDependentsHold")
			if !strings.Contains(n.Message, "Pod a/"+n.Object.Name+"-0") {
				t.Errorf("%s: %s", n.Object.Name, n.Message)
			}
		}
		b.want("explained", b.explain(job)+" "+b.explain(pods[0]), "waits_for_dependents excluded")
		for _, p := range pods {
			b.api.remove(p, gc.Background) // somebody else does
		}
		free := kept[0]
		free.Owners = nil
		b.api.put(free)
		b.after(time.Second)
		b.want("owners left", b.left([]gc.Object{job, orphans}), 0)
		for _, a := range b.api.sent {
			b.want("sent", a.Verb, gc.RemoveFinalizer)
		}
	})
}

// succeed ends a controller, and begins another one on the same API server and Lease.
func (b *fixture) succeed(cause error, m gate.StateStore) {
	b.t.Helper()
	b.stop(cause)
	<-b.done
	cfg := b.c.gate.Settings()
	b.c = New(Options{Config: cfg, API: b.api, Journal: b.kept, Metrics: NewMetrics(), State: m, Log: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	ctx, stop := context.WithCancelCause(b.t.Context())
	b.stop, b.done = stop, make(chan struct{})
	done := b.done
	go func() { defer close(done); b.err = b.c.Run(ctx) }()
	synctest.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
}

// Another leader begins with what the last one has counted; after a crash with what that
// may have done besides.
func TestCountsOutliveTheLeader(t *testing.T) {
	for name, tc := range map[string]struct {
		cause      error
		slack      int // deletions that a crash makes up
		ofEnvelope int
	}{"clean": {}, "crash": {election.ErrLost, 300, 300}} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			inBubbleWith(t, m, func(c *config.Config) {
				c.CircuitBreaker.Deletions, c.Envelope = 1500, config.Envelope{Burst: 1000, PerMinute: 60}
			}, nil, func(b *fixture) {
				owner := b.api.put(set("s"))
				pods := b.pods(owner, 700)
				b.api.remove(owner, gc.Background)
				b.after(time.Minute)
				b.want("left", b.left(pods), 0)
				if m.n > 12 {
					t.Errorf("written %d times", m.n)
				}
				b.succeed(tc.cause, m)
				written := m.n
				// The same root again: what is made too late goes because of it.
				pods = b.pods(owner, 1000)
				b.after(3 * time.Second)
				gone := 1000 - b.left(pods)
				if most := 1000 - 700 + 80; gone > most || gone < most-tc.ofEnvelope-100 {
					t.Errorf("%d went because of a root that had 300 left", gone)
				}
				other := b.api.put(set("other"))
				more := b.pods(other, 900)
				b.api.remove(other, gc.Background)
				b.after(10 * time.Second)
				all := 700 + gone + 900 - b.left(more)
				if all > 1500 || all < 1500-tc.slack-30 {
					t.Errorf("%d went in all, %d of them at first", all, gone)
				}
				b.metric("circuit_breaker_open", 1)
				if m.n == written {
					t.Error("nothing was written")
				}
				b.succeed(tc.cause, m)
				b.want("state", b.c.gate.Status(), "circuit breaker open: too many deletions")
			})
		})
	}
}

// While the Lease cannot be written no more is deleted than a crash may forget; all else
// goes on, and so do deletions once it can.
func TestUnwritten(t *testing.T) {
	m := &memory{}
	inBubbleWith(t, m, nil, nil, func(b *fixture) {
		m.set(errors.New("the API server is away"))
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 1000)
		b.api.remove(owner, gc.Background)
		b.after(time.Minute)
		b.want("left", b.left(pods), 1000-128)
		b.want("state", b.c.gate.Status(), "deletions wait until their number is saved")
		b.want("explained", b.explain(pods[999]), "held")
		b.want("logged", b.logged("cannot write the Lease"), 1)
		empty := b.api.put(set("empty"))
		b.api.remove(empty, gc.Foreground)
		b.after(time.Second)
		b.want("gone", b.left([]gc.Object{empty}), 0)
		m.set(nil)
		b.after(30 * time.Second)
		b.want("left", b.left(pods), 0)
		b.want("state", b.c.gate.Status(), "")
		written := m.n
		b.after(24 * time.Hour)
		b.want("written in a quiet day", m.n-written < 3, true)
	})
}

// What the benchmarks measure, 5,000 dependents of one owner, is within the envelope as it
// is shipped, and costs a few writes of the Lease.
func TestDefaultsDoNotSlowABigCascade(t *testing.T) {
	m := &memory{}
	inBubbleWith(t, m, nil, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 5000)
		written := m.n
		b.api.remove(owner, gc.Background)
		b.after(10 * time.Second)
		b.want("left", b.left(pods), 0)
		b.metric("cascade_slowdowns_total", 0)
		if n := m.n - written; n > 12 { // each claims more than the last one
			t.Errorf("the Lease was written %d times", n)
		}
	})
}
