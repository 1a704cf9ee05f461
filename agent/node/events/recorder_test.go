package events_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/runtime/kube/sourcetest"
)

// fakePoster takes Events, each after the time in takes.
type fakePoster struct {
	takes time.Duration

	mu    sync.Mutex
	err   error // what it answers
	calls int
	got   []kube.NodeEvent
}

func (f *fakePoster) PostEvent(ctx context.Context, e kube.NodeEvent) error {
	f.mu.Lock()
	f.calls++
	f.mu.Unlock()
	select {
	case <-time.After(f.takes):
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", kube.ErrUnavailable, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.got = append(f.got, e)
	}
	return f.err
}

// A real API server passes the same suite in runtime/kube/e2e.
func TestFakePosterConforms(t *testing.T) {
	p := &fakePoster{}
	sourcetest.Events(t, p, func(_ *testing.T, name string) (count int) {
		_, got := p.seen()
		for _, e := range got {
			if e.Name == name {
				count = e.Count
			}
		}
		return count
	})
}

// seen is what was posted, in how many attempts.
func (f *fakePoster) seen() (calls int, got []kube.NodeEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls, slices.Clone(f.got)
}

func (f *fakePoster) succeed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = nil
}

type fixture struct {
	*events.Recorder
	registry *prometheus.Registry
	log      bytes.Buffer
}

// run calls f beside a recorder that runs, in a bubble.
func run(t *testing.T, p *fakePoster, f func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &fixture{registry: prometheus.NewRegistry()}
		log := slog.New(slog.NewTextHandler(&x.log, nil))
		x.Recorder = events.New(x.registry, events.Options{Poster: p, Conditions: condition.NewSet(log), Log: log})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- x.Run(ctx) }()
		f(x)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (x *fixture) wantCounted(t *testing.T, sent, failed, dropped int) {
	t.Helper()
	families, err := x.registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "ebb_node_events_total" {
		t.Fatalf("%v, %v", families, err)
	}
	got := make(map[string]int)
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
	}
	if diff := cmp.Diff(map[string]int{"sent": sent, "failed": failed, "dropped": dropped}, got); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// The first goes at once, others of its reason a minute later, as one where they are the same.
func TestRecorder(t *testing.T) {
	p := &fakePoster{}
	run(t, p, func(x *fixture) {
		for n := range 5 {
			x.Record(events.Fact{Reason: events.Hold, Subject: "/a", Message: fmt.Sprint(n)})
			pass(time.Second)
		}
		x.Record(events.Fact{Reason: events.Paused, Message: "who"})
		pass(time.Second)
		if _, got := p.seen(); len(got) != 2 || got[0].Message != "0" || !got[0].Warning || got[1].Reason != "EbbPaused" || got[1].Warning {
			t.Fatalf("%+v", got)
		}
		pass(time.Minute)
		if _, got := p.seen(); len(got) != 3 || got[2].Message != "4" || got[2].Count != 5 || got[2].Name != got[0].Name {
			t.Fatalf("%+v", got)
		}
		pass(3 * time.Hour)
		x.wantCounted(t, 6, 0, 0)
	})
}

// A poster that hangs holds nobody up: it is given up after five seconds, and tried once more.
func TestSlowServer(t *testing.T) {
	p := &fakePoster{takes: time.Hour}
	run(t, p, func(x *fixture) {
		begun := time.Now()
		for n := range 100 {
			x.Record(events.Fact{Reason: events.PulledAgain, Subject: fmt.Sprint(n)})
		}
		if time.Since(begun) > 0 {
			t.Error("who records waits")
		}
		pass(13 * time.Second)
		if calls, _ := p.seen(); calls != 2 {
			t.Errorf("%d attempts", calls)
		}
	})
}

// A server that is away or busy is asked once more; one that refuses is not.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		calls int
	}{
		"away":    {kube.ErrUnavailable, 2},
		"refuses": {kube.ErrForbidden, 1},
		"odd":     {errors.New("a file that is not there"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := &fakePoster{err: c.err}
			run(t, p, func(x *fixture) {
				x.Record(events.Fact{Reason: events.Hold})
				pass(time.Hour)
				if calls, _ := p.seen(); calls != c.calls {
					t.Errorf("%d attempts, want %d", calls, c.calls)
				}
				x.wantCounted(t, 0, 1, 0)
				p.succeed()
				x.Record(events.Fact{Reason: events.Hold})
				pass(time.Minute)
				if calls, got := p.seen(); calls != c.calls+1 || len(got) != 1 || got[0].Again || got[0].Count != 1 {
					t.Errorf("after that: %+v", got)
				}
			})
		})
	}
}

// A missing right is logged once, however many posts fail by it, and once more when it is there.
func TestForbiddenIsLoggedOnce(t *testing.T) {
	p := &fakePoster{err: fmt.Errorf("%w (allow it)", kube.ErrForbidden)}
	run(t, p, func(x *fixture) {
		for range 5 {
			x.Record(events.Fact{Reason: events.Hold})
			pass(10 * time.Minute)
		}
		if text := x.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "allow it") || !strings.Contains(text, "level=WARN") {
			t.Errorf("the log is:\n%s", text)
		}
		p.succeed()
		for range 2 {
			x.Record(events.Fact{Reason: events.Hold})
			pass(10 * time.Minute)
		}
		if text := x.log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "written again") {
			t.Errorf("the log is:\n%s", text)
		}
		x.wantCounted(t, 2, 5, 0)
	})
}

// Without a poster, nothing is kept.
func TestNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		r := events.New(prometheus.NewRegistry(), events.Options{Conditions: condition.NewSet(log), Log: log})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 100 {
			r.Record(events.Fact{Reason: events.Hold})
		}
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Whatever somebody is called, a message stays one line, valid and short.
func TestQuote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Just(strings.Repeat("\x1b[2Jé\r\n\u202e\xff", 100))).Draw(t, "s")
		got := events.Quote(s)
		if len(got) > 1000 || !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\n\r\u202e") {
			t.Fatalf("%q becomes %q", s, got)
		}
	})
	if got := events.Quote(`a"b`); got != `"a\"b"` {
		t.Error(got)
	}
	p := &fakePoster{}
	run(t, p, func(x *fixture) {
		x.Record(events.Fact{Reason: events.Hold, Message: strings.Repeat("ü", 4000)})
		pass(time.Second)
		_, got := p.seen()
		if m := got[0].Message; len(m) > 1024 || !utf8.ValidString(m) {
			t.Errorf("a message of %d bytes", len(m))
		}
	})
}
