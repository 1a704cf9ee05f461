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
	eventBraked    = "DeletionsBraked"
	eventChanges   = "DeletionConflicts"
	eventSlowed    = "CascadeSlowed"
	eventExcluded  = "ExcludedDependentsHold"
)

const (
	warning = "Warning"
	// heraldQueue bounds what waits to be told; more is dropped and counted.
	heraldQueue = 256
	// The rate for one object is the event recorder's of client-go (v0.37,
	// tools/record/events_cache.go: defaultSpamBurst, defaultSpamQPS,
	// maxLruCacheEntries), which the kube-controller-manager uses.
	heraldBurst   = 25
	heraldRate    = rate.Limit(1. / 300)
	heraldObjects = 4096
	// heraldTimeout bounds one request.
	heraldTimeout = 10 * time.Second
)

// herald creates events, one after the other, beside the work. They tell people;
// nothing depends on them.
type herald struct {
	api     API
	log     *slog.Logger
	metrics *Metrics
	queue   chan metadata.Notice
	quiet   func() bool // nothing is to be written
	rates   map[string]*rate.Limiter
}

func newHerald(o Options) *herald {
	return &herald{api: o.API, log: o.Log, metrics: o.Metrics, queue: make(chan metadata.Notice, heraldQueue), rates: map[string]*rate.Limiter{}}
}

// say has an event created soon, or drops it.
func (h *herald) say(n metadata.Notice) {
	select {
	case h.queue <- n:
	default:
		h.metrics.event(n.Reason, "dropped")
	}
}

func (h *herald) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-h.queue:
			h.tell(ctx, n)
		}
	}
}

func (h *herald) tell(ctx context.Context, n metadata.Notice) {
	if !h.allow(n.Object.UID) || h.quiet() {
		h.metrics.event(n.Reason, "withheld")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heraldTimeout)
	defer cancel()
	if err := h.api.Warn(ctx, n); err != nil {
		h.metrics.event(n.Reason, "failed")
		h.log.Debug("event not created", "reason", n.Reason, "error", err)
		return
	}
	h.metrics.event(n.Reason, "created")
}

func (h *herald) allow(uid string) bool {
	limit := h.rates[uid]
	if limit == nil {
		if len(h.rates) >= heraldObjects {
			clear(h.rates) // whoever spams is soon known again
		}
		limit = rate.NewLimiter(heraldRate, heraldBurst)
		h.rates[uid] = limit
	}
	return limit.Allow()
}
