package gate

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/breaker"
	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

// maxCulprits is how many cascades a message names.
const maxCulprits = 3

// Describe returns the kind, namespace and name of an object, for people.
func Describe(o gc.Coordinates) string {
	if o.Namespace == "" {
		return cascade.BaseKind(o.Kind) + " " + o.Name
	}
	return cascade.BaseKind(o.Kind) + " " + o.Namespace + "/" + o.Name
}

// trip opens the circuit breaker, and names the largest cascades. The caller holds the lock.
func (g *Gate) trip(now time.Time, a gc.Action) {
	g.tripped = true
	g.updateMetrics()
	g.saver.notify()
	g.metrics.trips.Inc()
	b := g.config.CircuitBreaker
	var names []string
	for _, c := range g.breaker.Cascades(now, maxCulprits) {
		names = append(names, fmt.Sprintf("%s (%d)", Describe(c.Root), c.Deletions))
	}
	most := strings.Join(names, ", ")
	g.log.Error("deletions stop: more than the circuit breaker allows; look at ebb control decisions and ebb control cascades, then run ebb control resume",
		"reason", "circuit breaker", "deletions", b.Deletions, "window", b.Window.String(), "next", a.Object.Name, "namespace", a.Object.Namespace, "kind", a.Object.Kind,
		"root", Describe(a.Root), "root_uid", a.Root.UID, "most", most)
	text := fmt.Sprintf("%d objects were deleted within %s. Nothing more is deleted until a person runs ebb control resume. This one was due because of %s.",
		b.Deletions, b.Window, Describe(a.Root))
	if most != "" {
		text += " Most were deleted because of " + most + "."
	}
	g.warn(a.Object, events.Tripped, text)
}

// reportSlowed reports, in the log and as an event, that a cascade has spent its envelope. The
// caller holds the lock.
func (g *Gate) reportSlowed(a gc.Action, taken breaker.Grant) {
	g.metrics.slowdowns.Inc()
	e := g.config.Envelope
	if a.Root.IsCollector() {
		e = g.config.CollectorEnvelope
	}
	g.log.Warn("a cascade is slowed down; it continues by itself, and other cascades are not affected",
		"reason", "envelope", "root", Describe(a.Root), "root_uid", a.Root.UID, "burst", e.Burst, "per_minute", e.PerMinute, "goes_on", taken.RetryAt.UTC().Format(time.RFC3339))
	if a.Root.IsCollector() {
		return // no object could have the event
	}
	g.warn(a.Root, events.Slowed, fmt.Sprintf(
		"%d objects were deleted because this one was. The others follow at %d a minute. If you do not want that, run ebb control pause. ebb control cascades shows the cascade.", e.Burst, e.PerMinute))
}

// Cascades returns the roots with the most deletions recently, most first. most bounds their
// number.
func (g *Gate) Cascades(now time.Time, most int) []breaker.Cascade {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.breaker.Cascades(now, most)
}
