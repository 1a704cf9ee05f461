package cluster

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Reasons of events.
const (
	eventNamespace = "OwnerRefInvalidNamespace" // the kube-controller-manager's
	eventHeld      = "OrphaningHeld"
	eventGivenUp   = "CascadeTypesGivenUp"
	eventTripped   = "CircuitBreakerOpen"
	eventChanges   = "DeletionConflicts"
	eventSlowed    = "CascadeSlowed"
	eventExcluded  = "ExcludedDependentsHold"
)

const (
	warning = "Warning"
	// eventQueueSize bounds the events that wait to be created; more are dropped and counted.
	eventQueueSize = 256
	// The rate for one object is the event recorder's of client-go (v0.37,
	// tools/record/events_cache.go: defaultSpamBurst, defaultSpamQPS,
	// maxLruCacheEntries), which the kube-controller-manager uses.
	eventBurst      = 25
	eventRate       = rate.Limit(1. / 300)
	maxEventObjects = 4096
	// eventTimeout bounds one request.
	eventTimeout = 10 * time.Second
)

// eventRecorder creates events, one after the other, beside the work. Events inform
// people; nothing depends on them.
type eventRecorder struct {
	api     API
	log     *slog.Logger
	metrics *Metrics
	queue   chan metadata.Notice
	muted   func(reason string) bool // nothing is to be written
	limits  map[string]*rate.Limiter
}

func newEventRecorder(o Options) *eventRecorder {
	return &eventRecorder{api: o.API, log: o.Log, metrics: o.Metrics, queue: make(chan metadata.Notice, eventQueueSize), limits: map[string]*rate.Limiter{}}
}

// say has an event created soon, or drops it.
func (r *eventRecorder) record(n metadata.Notice) {
	select {
	case r.queue <- n:
	default:
		r.metrics.event(n.Reason, "dropped")
	}
}

func (r *eventRecorder) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-r.queue:
			r.create(ctx, n)
		}
	}
}

func (r *eventRecorder) create(ctx context.Context, n metadata.Notice) {
	if !r.allow(n.Object.UID) || r.muted(n.Reason) {
		r.metrics.event(n.Reason, "withheld")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	if err := r.api.Warn(ctx, n); err != nil {
		r.metrics.event(n.Reason, "failed")
		r.log.Debug("event not created", "reason", n.Reason, "error", err)
		return
	}
	r.metrics.event(n.Reason, "created")
}

func (r *eventRecorder) allow(uid string) bool {
	limit := r.limits[uid]
	if limit == nil {
		if len(r.limits) >= maxEventObjects {
			clear(r.limits) // whoever spams is soon known again
		}
		limit = rate.NewLimiter(eventRate, eventBurst)
		r.limits[uid] = limit
	}
	return limit.Allow()
}
