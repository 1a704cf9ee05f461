package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/brake"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// mostCulprits is how many cascades a message names, mostCascades how many /cascades does.
	mostCulprits = 3
	mostCascades = 100
)

// describe an object as people name it.
func describe(o gc.Coordinates) string {
	if o.Namespace == "" {
		return cascade.BaseKind(o.Kind) + " " + o.Name
	}
	return cascade.BaseKind(o.Kind) + " " + o.Namespace + "/" + o.Name
}

// pull the brake, and say because of whose cascades. The caller holds the lock.
func (d *door) pull(now time.Time, a gc.Action) {
	d.braked = true
	d.show()
	d.changed()
	d.metrics.brakes.Inc()
	b := d.config.Brake
	var names []string
	for _, c := range d.brake.Cascades(now, mostCulprits) {
		names = append(names, fmt.Sprintf("%s (%d)", describe(c.Root), c.Deletions))
	}
	most := strings.Join(names, ", ")
	d.log.Error("deletions stop: more than the brake allows; look at /decisions and /cascades, then POST /control/resume",
		"reason", "brake", "deletions", b.Deletions, "window", b.Window.String(), "next", a.Object.Name, "namespace", a.Object.Namespace, "kind", a.Object.Kind,
		"root", describe(a.Root), "root_uid", a.Root.UID, "most", most)
	text := fmt.Sprintf("%d objects were deleted within %s: no more are, until somebody has looked and says so. This one was to go because of %s.",
		b.Deletions, b.Window, describe(a.Root))
	if most != "" {
		text += " Most went because of " + most + "."
	}
	d.herald.say(metadata.Notice{Object: a.Object, Type: warning, Reason: eventBraked, Message: text})
}

// slow says that a cascade has spent its envelope. The caller holds the lock.
func (d *door) slow(a gc.Action, taken brake.Answer) {
	d.metrics.slowdowns.Inc()
	e := d.config.Envelope
	d.log.Warn("a cascade is slowed; it goes on by itself, and others are not held",
		"reason", "envelope", "root", describe(a.Root), "root_uid", a.Root.UID, "burst", e.Burst, "per_minute", e.PerMinute, "goes_on", taken.Until.UTC().Format(time.RFC3339))
	if isSide(a) {
		return // there is no object to tell it of
	}
	d.herald.say(metadata.Notice{Object: a.Root, Type: warning, Reason: eventSlowed, Message: fmt.Sprintf(
		"%d objects were deleted because it went: the others follow at %d a minute. If that is not meant, pause ebb-controller; see its /cascades.", e.Burst, e.PerMinute)})
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
		c.door.mu.Lock()
		defer c.door.mu.Unlock()
		for _, e := range c.door.brake.Cascades(now, mostCascades) {
			s := CascadeStatus{Root: named(e.Root), Deletions: e.Deletions, Left: e.Left, Slowed: e.Slowed}
			if n, until := c.collector.SlowedOf(e.Root.UID); n > 0 {
				s.Waiting, s.GoesOn = n, &until
			}
			list = append(list, s)
		}
	})
	return list, err
}

// warnExcluded tells of a deleted owner that only what is excluded holds.
func (c *Controller) warnExcluded(a gc.Action) {
	var names []string
	for _, o := range c.collector.Holding(a.Object) {
		names = append(names, describe(o))
	}
	c.log.Info("a deleted owner stays: what holds it is excluded", "reason", string(a.Reason), "owner", describe(a.Object), "uid", a.Object.UID, "holders", some(names))
	c.herald.say(metadata.Notice{Object: a.Object, Type: warning, Reason: eventExcluded, Message: fmt.Sprintf(
		"it is deleted and stays, because what refers to it is excluded from collection: %s", some(names))})
}
