package cluster

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPolicies(t *testing.T) {
	for _, policy := range []gc.Policy{gc.Background, gc.Foreground, gc.Orphan} {
		t.Run(string(policy), func(t *testing.T) {
			inBubble(t, nil, nil, func(b *fixture) {
				owner := b.api.put(set("s"))
				pods := b.pods(owner, 300)
				b.api.remove(owner, policy)
				b.after(time.Second)
				b.want("owner is there", b.api.get(owner) != nil, false)
				left := 0
				if policy == gc.Orphan {
					left = len(pods)
				}
				b.want("pods left", b.left(pods), left)
				for _, p := range pods {
					if o := b.api.get(p); o != nil && (len(o.Owners) > 0 || o.Terminating) {
						b.t.Fatalf("%+v", o)
					}
				}
				// One request for each, and one for the owner's finalizer.
				if n := len(b.api.sent); n > len(pods)+1 {
					b.t.Errorf("%d requests", n)
				}
				b.want("deleted of pods, as the record has it", len(b.c.gate.Decisions()), len(b.api.sent))
			})
		})
	}
}

// The concurrency follows what the API server takes.
func TestThrottled(t *testing.T) {
	refused := 0
	inBubble(t, nil, func(f *fake) {
		f.do = func(gc.Action) *metadata.Outcome {
			defer f.lock()()
			if refused++; refused > 40 {
				return nil
			}
			return &metadata.Outcome{Result: gc.TooMany, Throttled: true, RetryAfter: time.Second, Err: errors.New("429")}
		}
	}, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 200)
		begun := time.Now()
		b.api.remove(owner, gc.Background)
		b.after(10 * time.Millisecond)
		if n := b.c.requests.limit.Limit(); n > 8 {
			t.Errorf("limit %d after 429", n)
		}
		for b.left(pods) > 0 && time.Since(begun) < time.Hour {
			b.after(time.Second)
		}
		b.want("pods left", b.left(pods), 0)
		if took := time.Since(begun); took < 2*time.Second || took > time.Minute {
			t.Errorf("took %v", took)
		}
		if n := b.c.requests.limit.Limit(); n < 2 {
			t.Errorf("limit %d afterwards", n)
		}
	})
}

func TestPause(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 500)
		b.api.remove(owner, gc.Background)
		time.Sleep(5 * time.Millisecond) // in the middle of it
		b.want("on their way after the pause", b.c.gate.Pause(b.t.Context()), 0)
		sent := len(b.api.sent)
		if sent == 0 || sent == len(pods) {
			b.t.Fatalf("%d sent before the pause", sent)
		}
		b.after(time.Hour)
		b.want("sent in the pause", len(b.api.sent)-sent, 0)
		b.want("silent", b.c.gate.Muted(events.Tripped), true)
		b.want("still", b.c.gate.Resume(), "")
		b.want("entered", b.c.loop.do(b.t.Context(), func(time.Time) {}), nil)
		b.after(time.Minute)
		b.want("pods left", b.left(pods), 0)
		b.metric("paused", 0)
	})
}

func TestCircuitBreaker(t *testing.T) {
	inBubble(t, func(c *config.Config) {
		c.CircuitBreaker = config.CircuitBreaker{Deletions: 100, Window: config.Duration(time.Minute)}
	}, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 250)
		b.api.remove(owner, gc.Background)
		b.after(time.Hour)
		b.want("pods left", b.left(pods), 150)
		b.metric("circuit_breaker_open", 1)
		b.want("events", len(b.api.notices), 1)
		b.want("event", b.api.notices[0].Reason, events.Tripped)
		b.want("logged", b.logged("deletions stop"), 1)
		b.want("state", b.c.gate.Status(), "circuit breaker open: too many deletions")
		for range 2 {
			b.c.gate.Resume()
			_ = b.c.loop.do(b.t.Context(), func(time.Time) {})
			b.after(time.Hour)
		}
		b.want("pods left", b.left(pods), 0)
		b.metric("circuit_breaker_open", 0)
	})
}

// Observing decides once for each object, changes nothing, and goes on to enforce
// what it decided.
func TestObserve(t *testing.T) {
	inBubble(t, func(c *config.Config) { c.Mode = config.Default().Mode }, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 50)
		b.api.remove(owner, gc.Background)
		b.after(24 * time.Hour)
		b.want("sent", len(b.api.sent), 0)
		b.want("events", len(b.api.notices), 0)
		list := b.c.gate.Decisions()
		b.want("decisions", len(list), len(pods))
		b.want("decision", list[0].Result+" "+list[0].Verb+" "+list[0].Reason, "observed delete owners_absent")
		b.want("explained", b.explain(pods[0]), "owners_absent")
		b.want("logged", b.logged("would have been deleted"), len(pods))
		b.want("state", b.c.gate.Status(), "observe: nothing is changed until mode is enforce")
		b.metric("observing", 1)
		b.want("configured", b.c.Configure(b.t.Context(), enforcing()), nil)
		b.metric("observing", 0)
		b.after(time.Second) // it takes the journal over first
		b.want("state", b.c.gate.Status(), "")
		b.want("pods left", b.left(pods), 0)
	})
}

func TestExclusions(t *testing.T) {
	inBubble(t, func(c *config.Config) {
		c.Exclude = config.Exclude{Types: []string{"sets.apps"}, Namespaces: []string{"b"}}
	}, nil, func(b *fixture) {
		owner, other := b.api.put(set("s")), set("s")
		other.Namespace = "b"
		other = b.api.put(other)
		pods, untouched := b.pods(owner, 3), b.pods(other, 3)
		child := set("child")
		child.Owners = []gc.Reference{{APIVersion: "apps/v1", Kind: "Set", Name: "s", UID: owner.UID}}
		child = b.api.put(child)
		b.api.remove(owner, gc.Background)
		b.api.remove(other, gc.Background)
		b.after(time.Hour)
		b.want("pods left", b.left(pods), 0)
		b.want("excluded by namespace left", b.left(untouched), 3)
		b.want("excluded by type left", b.left([]gc.Object{child}), 1)
		b.want("why", b.explain(untouched[0])+" "+b.explain(child), "excluded excluded")
		b.want("configured", b.c.Configure(b.t.Context(), enforcing()), nil)
		b.after(time.Second)
		b.want("left", b.left(append(untouched, child)), 0)
	})
}

// While it is not certain that the observed state still holds, nothing is sent, and no request is
// repeated in a loop.
func TestUnsure(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 50)
		end := b.api.doubt()
		b.api.remove(owner, gc.Background)
		b.after(time.Hour)
		b.want("sent", len(b.api.sent), 0)
		b.want("pods left", b.left(pods), 50)
		b.want("state", b.c.gate.Status(), "the API server was away: nothing is sent until each type has caught up")
		end()
		b.after(time.Second)
		b.want("pods left", b.left(pods), 0)
	})
}

// After an etcd was restored nothing is believed until it was seen again.
func TestWentBack(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		owner, held := b.api.put(set("s")), b.api.put(set("t"))
		b.pods(owner, 3)
		b.journalFails(errors.New("503"))
		b.api.remove(held, gc.Orphan)
		b.after(time.Second)
		b.want("held", b.api.get(held) != nil, true)
		b.goBack()
		b.journalFails(nil)
		b.after(time.Minute)
		b.metric("etcd_restores_total", 1)
		b.want("orphaned", b.api.get(held) == nil, true)
		b.api.remove(owner, gc.Background)
		b.after(time.Minute)
		b.want("objects", len(b.api.objects), 0)
	})
}

// A configuration is applied as a whole, however busy the controller is.
func TestConfiguredWhileBusy(t *testing.T) {
	inBubble(t, func(c *config.Config) { c.Mode = config.Observe }, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 3)
		b.api.remove(owner, gc.Background)
		b.after(time.Minute)
		go func() { _ = b.c.loop.do(b.t.Context(), func(time.Time) { time.Sleep(time.Minute) }) }()
		synctest.Wait()
		b.configure(func(c *config.Config) { c.Mode = config.Enforce })
		b.after(time.Minute)
		b.want("left", b.left(pods), 0)
	})
}

// The words are the kube-controller-manager's, and so is the rate.
func TestInvalidNamespace(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		away := owner
		away.Namespace = "b"
		b.pods(away, 1)
		b.after(time.Minute)
		b.want("events", len(b.api.notices), 1)
		b.want("event", b.api.notices[0].Message, fmt.Sprintf(`ownerRef [apps/v1/Set, namespace: b, name: s, uid: %s] does not exist in namespace "b"`, owner.UID))
		for range 100 {
			b.c.events.Warn(b.api.notices[0].Object, events.Namespace, b.api.notices[0].Message)
			b.after(time.Millisecond)
		}
		b.want("events of one object", len(b.api.notices), 25)
	})
}

// At the end requests on their way are waited for; when the lease is lost they are
// not, and nothing is sent after that.
func TestEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		cause error
		took  time.Duration
		wait  time.Duration
	}{
		"clean":         {nil, time.Second, time.Second},
		"hanging":       {nil, time.Hour, 5 * time.Second},
		"lease is lost": {election.ErrLost, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, nil, func(b *fixture) {
				owner := b.api.put(set("s"))
				b.pods(owner, 100)
				b.api.hang = tc.took
				b.api.remove(owner, gc.Background)
				b.after(10 * time.Millisecond)
				begun := time.Now()
				b.stop(tc.cause)
				<-b.done
				b.want("took", time.Since(begun).Round(100*time.Millisecond), tc.wait)
				if !errors.Is(b.err, tc.cause) {
					t.Errorf("Run: %v", b.err)
				}
				sent := len(b.api.sent)
				if tc.took == time.Second != (sent > 0) || sent > 32 {
					t.Errorf("%d requests were carried out", sent)
				}
				b.after(time.Hour)
				b.want("sent afterwards", len(b.api.sent)-sent, 0)
				if _, err := b.c.Types(t.Context()); !errors.Is(err, errIdle) {
					t.Errorf("asked afterwards: %v", err)
				}
			})
		})
	}
}
