package events

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	timeout    = 5 * time.Second // of one attempt
	retryPause = 2 * time.Second // at most, before the second attempt; added to the delay that the server asks for
)

// Values of the metric's label.
const (
	sent    = "sent"
	failed  = "failed"
	dropped = "dropped"
)

// Poster writes Events about this node; *kube.APIServer implements it.
type Poster interface {
	PostEvent(ctx context.Context, e kube.NodeEvent) error
}

// Options are the dependencies of a Recorder.
type Options struct {
	Poster     Poster // nil: nothing is posted
	Conditions *condition.Set
	Log        *slog.Logger
}

// Recorder posts Events in the background.
type Recorder struct {
	Options
	facts *prometheus.CounterVec
	news  chan struct{} // signals that a fact was queued

	mu    sync.Mutex
	queue queue
}

// New registers the metric. It starts nothing.
func New(r *prometheus.Registry, o Options) *Recorder {
	f := program.Factory{Registry: r, Subsystem: "node"}
	recorder := &Recorder{Options: o, news: make(chan struct{}, 1), facts: f.Counters("events_total",
		"Facts for Events about the Node, by result: sent; failed, and lost; dropped, because there were too many. A fact that repeats counts each time, and is one Event.", "result")}
	for _, result := range []string{sent, failed, dropped} {
		recorder.facts.WithLabelValues(result)
	}
	return recorder
}

// Record queues a fact for an Event. It may be posted soon, merged or dropped. It never waits.
func (r *Recorder) Record(f Fact) {
	if r.Poster == nil {
		return
	}
	f.Message = cut(f.Message, maxMessage)
	r.mu.Lock()
	r.count(dropped, r.queue.add(f, time.Now()))
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default: // signalled already, and not received yet
	}
}

func (r *Recorder) count(result string, facts int) {
	r.facts.WithLabelValues(result).Add(float64(facts))
}

// Run posts recorded facts until ctx is done. Facts that still wait then are lost.
func (r *Recorder) Run(ctx context.Context) error {
	timer := time.NewTimer(window)
	defer timer.Stop()
	for ctx.Err() == nil {
		w, e, ok := r.take()
		if ok {
			r.done(w, e, r.post(ctx, e))
			continue
		}
		if at, some := r.next(); some {
			timer.Reset(time.Until(at))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
		case <-r.news:
		case <-timer.C:
		}
	}
	return nil
}

func (r *Recorder) next() (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue.next()
}

// take returns the fact to post now, and its Event; ok is false if there is none.
func (r *Recorder) take() (w waiting, e kube.NodeEvent, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.count(dropped, r.queue.expire(now))
	if w, ok = r.queue.take(now); ok {
		e = r.queue.event(w)
	}
	return w, e, ok
}

// post makes one attempt, and a second one if the error is temporary. After the second failure it
// waits as long as the server asks for.
func (r *Recorder) post(ctx context.Context, e kube.NodeEvent) error {
	err := r.try(ctx, e)
	after, again := kube.Temporary(err)
	if err == nil || !again || !wait.Sleep(ctx, after+wait.Jitter(retryPause)) {
		return err
	}
	if err = r.try(ctx, e); err != nil {
		after, _ = kube.Temporary(err)
		wait.Sleep(ctx, after)
	}
	return err
}

func (r *Recorder) try(ctx context.Context, e kube.NodeEvent) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.Poster.PostEvent(ctx, e)
}

// unwritable is the condition that Events may not be written.
const unwritable = "events of the node"

// done counts the result of a post. A missing permission lasts, so it is a condition. The
// components that need the API server report when it is unreachable.
func (r *Recorder) done(w waiting, e kube.NodeEvent, err error) {
	switch {
	case err == nil:
		r.mu.Lock()
		r.queue.sent(w, e, time.Now())
		r.mu.Unlock()
		r.count(sent, w.times)
		r.Conditions.End(unwritable, "Events about this node are written again")
		return
	case errors.Is(err, kube.ErrForbidden):
		r.Conditions.Begin(unwritable, slog.LevelWarn, "cannot write Events about this node; the log has the same facts", "error", err)
	default:
		r.Log.Debug("event not written", "reason", e.Reason, "error", err)
	}
	r.count(failed, w.times)
}
