package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/breaker"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// maxCulprits is how many cascades a message names, maxCascades how many /cascades does.
	maxCulprits = 3
	maxCascades = 100
)

// describe an object as people name it.
func describe(o gc.Coordinates) string {
	if o.Namespace == "" {
		return cascade.BaseKind(o.Kind) + " " + o.Name
	}
	return cascade.BaseKind(o.Kind) + " " + o.Namespace + "/" + o.Name
}

// trip opens the circuit breaker, and names the largest cascades. The caller holds the lock.
func (g *gate) trip(now time.Time, a gc.Action) {
	g.tripped = true
	g.updateMetrics()
	g.notifySaver()
	g.metrics.trips.Inc()
	b := g.config.CircuitBreaker
	var names []string
	for _, c := range g.breaker.Cascades(now, maxCulprits) {
		names = append(names, fmt.Sprintf("%s (%d)", describe(c.Root), c.Deletions))
	}
	most := strings.Join(names, ", ")
	g.log.Error("deletions stop: more than the circuit breaker allows; look at ebb control decisions and ebb control cascades, then run ebb control resume",
		"reason", "circuit breaker", "deletions", b.Deletions, "window", b.Window.String(), "next", a.Object.Name, "namespace", a.Object.Namespace, "kind", a.Object.Kind,
		"root", describe(a.Root), "root_uid", a.Root.UID, "most", most)
	text := fmt.Sprintf("%d objects were deleted within %s: no more are, until somebody has looked and says so. This one was to go because of %s.",
		b.Deletions, b.Window, describe(a.Root))
	if most != "" {
		text += " Most went because of " + most + "."
	}
	g.events.record(metadata.Notice{Object: a.Object, Type: warning, Reason: eventTripped, Message: text})
}

// reportSlowed says that a cascade has spent its envelope. The caller holds the lock.
func (g *gate) reportSlowed(a gc.Action, taken breaker.Grant) {
	g.metrics.slowdowns.Inc()
	e := g.config.Envelope
	if a.Root.IsCollector() {
		e = g.config.CollectorEnvelope
	}
	g.log.Warn("a cascade is slowed; it goes on by itself, and others are not held",
		"reason", "envelope", "root", describe(a.Root), "root_uid", a.Root.UID, "burst", e.Burst, "per_minute", e.PerMinute, "goes_on", taken.RetryAt.UTC().Format(time.RFC3339))
	if a.Root.IsCollector() {
		return // there is no object to tell it of
	}
	g.events.record(metadata.Notice{Object: a.Root, Type: warning, Reason: eventSlowed, Message: fmt.Sprintf(
		"%d objects were deleted because it went: the others follow at %d a minute. If that is not meant, run ebb control pause; ebb control cascades shows it.", e.Burst, e.PerMinute)})
}

// CascadeStatus is what a root owner's cascade has cost of late.
type CascadeStatus struct {
	Root      *ObjectName `json:"root"`
	Deletions int         `json:"deletions"` // since its envelope was last full
	Left      int         `json:"left"`      // of the burst
	Slowed    bool        `json:"slowed"`
	Waiting   int         `json:"waiting,omitempty"` // deletions, for their turn
	GoesOn    *time.Time  `json:"goesOn,omitempty"`
}

// Cascades are the roots with most deletions of late, those first.
func (c *Controller) Cascades(ctx context.Context) (list []CascadeStatus, err error) {
	list = []CascadeStatus{}
	err = c.query(ctx, func(now time.Time) {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		for _, e := range c.gate.breaker.Cascades(now, maxCascades) {
			s := CascadeStatus{Root: named(e.Root), Deletions: e.Deletions, Left: e.Left, Slowed: e.Slowed}
			if n, until := c.collector.SlowedOf(e.Root.UID); n > 0 {
				s.Waiting, s.GoesOn = n, &until
			}
			list = append(list, s)
		}
	})
	return list, err
}

// warnExcluded reports a deleted owner that only excluded objects hold.
func (c *Controller) warnExcluded(a gc.Action) {
	var names []string
	for _, o := range c.collector.Holding(a.Object) {
		names = append(names, describe(o))
	}
	c.log.Info("a deleted owner stays: what holds it is excluded", "reason", string(a.Reason), "owner", describe(a.Object), "uid", a.Object.UID, "holders", firstNames(names))
	c.events.record(metadata.Notice{Object: a.Object, Type: warning, Reason: eventExcluded, Message: fmt.Sprintf(
		"it is deleted and stays, because what refers to it is excluded from collection: %s", firstNames(names))})
}
