// Package events creates Kubernetes events, one after the other, in a goroutine of its own. Events
// inform people; nothing depends on them.
package events

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Reasons of events.
const (
	Namespace = "OwnerRefInvalidNamespace" // the reason that the kube-controller-manager uses
	Held      = "OrphaningHeld"
	GivenUp   = "CascadeTypesGivenUp"
	Tripped   = "CircuitBreakerOpen"
	Changes   = "DeletionConflicts"
	Slowed    = "CascadeSlowed"
	Excluded  = "ExcludedDependentsHold"
)

// Warning is the type of all events.
const Warning = "Warning"

const (
	// queueSize bounds the events that wait to be created; more are dropped and counted.
	queueSize = 256
	// The rate for one object is the event recorder's of client-go (v0.37,
	// tools/record/events_cache.go: defaultSpamBurst, defaultSpamQPS,
	// maxLruCacheEntries), which the kube-controller-manager uses.
	burst      = 25
	perObject  = rate.Limit(1. / 300)
	maxObjects = 4096
	// timeout bounds one request.
	timeout = 10 * time.Second
)

// API creates an event, or increments the count of an existing one: see [metadata.Client].
type API interface {
	Warn(ctx context.Context, n metadata.Notice) error
}

// Options configure a [Recorder].
type Options struct {
	API   API
	Log   *slog.Logger
	Count *prometheus.CounterVec   // see [Counter]
	Muted func(reason string) bool // whether events of this reason are withheld
}

// Recorder creates events. It is safe for concurrent use.
type Recorder struct {
	o      Options
	queue  chan metadata.Notice
	limits map[string]*rate.Limiter // by UID; owned by the goroutine of Run
}

// New returns a Recorder that creates nothing until Run.
func New(o Options) *Recorder {
	return &Recorder{o: o, queue: make(chan metadata.Notice, queueSize), limits: map[string]*rate.Limiter{}}
}

// Counter registers the counter of events, by reason and result.
func Counter(f program.Factory) *prometheus.CounterVec {
	c := f.Counters("events_total", "Kubernetes events of the controller, by reason and result.", "reason", "result")
	for _, reason := range []string{Namespace, Held, GivenUp, Tripped, Changes, Slowed, Excluded} {
		for _, result := range []string{"created", "failed", "dropped", "withheld"} {
			c.WithLabelValues(reason, result)
		}
	}
	return c
}

// Warn queues a warning, or drops it if the queue is full. It never blocks.
func (r *Recorder) Warn(o gc.Coordinates, reason, message string) {
	select {
	case r.queue <- metadata.Notice{Object: o, Type: Warning, Reason: reason, Message: message}:
	default:
		r.o.Count.WithLabelValues(reason, "dropped").Inc()
	}
}

// Run creates the queued events until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-r.queue:
			r.create(ctx, n)
		}
	}
}

func (r *Recorder) create(ctx context.Context, n metadata.Notice) {
	if r.o.Muted(n.Reason) || !r.allow(n.Object.UID) {
		r.o.Count.WithLabelValues(n.Reason, "withheld").Inc()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := r.o.API.Warn(ctx, n); err != nil {
		r.o.Count.WithLabelValues(n.Reason, "failed").Inc()
		r.o.Log.Debug("event not created", "reason", n.Reason, "error", err)
		return
	}
	r.o.Count.WithLabelValues(n.Reason, "created").Inc()
}

func (r *Recorder) allow(uid string) bool {
	limit := r.limits[uid]
	if limit == nil {
		if len(r.limits) >= maxObjects {
			clear(r.limits) // an object with many events is soon limited again
		}
		limit = rate.NewLimiter(perObject, burst)
		r.limits[uid] = limit
	}
	return limit.Allow()
}
