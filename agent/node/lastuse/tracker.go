package lastuse

import (
	"log/slog"
	"maps"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Options configures a Tracker.
type Options struct {
	Probes     Probes // nil: there are no kernel programs
	Disk       Disk
	Conditions *condition.Set
	Log        *slog.Logger
	Metrics    *Metrics
	Tell       func(events.Fact) // posts a Kubernetes Event
	Settled    func()            // called when the kernel knows all present layers
	Outside    func(f func())    // calls f, which takes long, without the lock that guards the Tracker; nil: directly
}

// Tracker knows when images were last used.
type Tracker struct {
	o          *Options
	clock      *clock.Clock
	images     images
	removed    removedImages
	away       awayImages
	containers containers
	layers     *Layers
	stamps     stamps
}

// New returns a Tracker without records: see Restore.
func New(o Options) *Tracker {
	if o.Outside == nil {
		o.Outside = func(f func()) { f() }
	}
	t := &Tracker{o: &o, away: make(awayImages), containers: newContainers(), removed: removedImages{o: &o}}
	t.layers = newLayers(&o, &t.images)
	t.stamps = stamps{o: &o, images: &t.images, tracked: &t.layers.tracked, fresh: make(map[string]bool)}
	return t
}

// Restore takes over the records of an earlier agent. It is called before anything else.
func (t *Tracker) Restore(c *clock.Clock, r state.Records) {
	t.clock, t.layers.clock, t.stamps.clock = c, c, c
	t.images.records, t.removed.records, t.containers.records, t.layers.records = r.Images, r.Removed, r.Containers, r.Layers
	t.images.listed = r.Meta.Listed
}

// Save adds a copy of the records to those that are to be written.
func (t *Tracker) Save(r *state.Records) {
	r.Images, r.Removed = maps.Clone(t.images.records), maps.Clone(t.removed.records)
	r.Containers, r.Layers = maps.Clone(t.containers.records), maps.Clone(t.layers.records)
	r.Meta.Listed = t.images.listed
}

// Layers returns the layers of the images.
func (t *Tracker) Layers() *Layers { return t.layers }

// Known returns the images that the runtime listed last, by ID; nil before its first list. The map must
// not be changed.
func (t *Tracker) Known() map[string]inventory.Image { return t.images.known }

// Image returns the record of an image; the zero value if there is none.
func (t *Tracker) Image(id string) state.Image { return t.images.records[id] }

// Records returns a copy of the records of images, by ID.
func (t *Tracker) Records() map[string]state.Image { return maps.Clone(t.images.records) }

// Uses counts the known images that are in use. For each of the others it returns since when the image
// is not in use, as far as ebb has seen.
func (t *Tracker) Uses() (inUse int, last []time.Time) { return t.images.uses() }

// Listed brings the records in line with an inventory that was requested at asked. It returns the IDs
// of images that are gone. While unmended, the inventory may lack images that an earlier agent has
// withdrawn. It releases the lock while it looks at directories of layers.
func (t *Tracker) Listed(inv *inventory.Inventory, asked time.Time, unmended bool) (gone []string) {
	now := t.clock.Now()
	t.images.list(inv.Images, asked, func(i inventory.Image, old *state.Image) state.Image {
		if old == nil {
			return t.arrived(i, now)
		}
		return t.renewed(*old, i)
	})
	gone, remembered := t.images.forgetMissing(func(id string) bool { return t.away.keeps(id, now, unmended) })
	t.away.expire(now)
	t.layers.keep(inv, remembered)
	t.layers.trackKnown()
	t.stamps.harvest()
	t.images.used(t.containers.list(inv.Containers, asked, t.clock.End, t.stamps.fresh))
	t.images.usedBy(inv.Containers)
	clear(t.stamps.fresh)
	t.images.listed = asked
	return gone
}

// arrived returns the record of an image that was not listed before. An image that comes back after its
// removal counts as new. With its old age it would be the next one to be removed, and would be pulled
// again and again.
func (t *Tracker) arrived(i inventory.Image, now time.Time) state.Image {
	r := state.Image{Observed: now, Arrived: now, Again: t.removed.cameBack(i, now)}
	if !i.Updated.IsZero() {
		// It came before it was seen, and may have been used since. But it came after the last list
		// that lacked it.
		r.Arrived = clock.Latest(t.images.listed, t.clock.FromWall(i.Updated))
	}
	return r
}

// renewed returns the record of a present image that was pulled, imported or tagged again: it is
// wanted. It counts as used and as new from then on. If ebb itself restored its names, nothing has
// changed.
func (t *Tracker) renewed(r state.Image, i inventory.Image) state.Image {
	if t.ours(i) {
		return r
	}
	at := t.clock.FromWall(i.Updated)
	r.Arrived, r.LastUsed = clock.Latest(r.Arrived, at), clock.Latest(r.LastUsed, at)
	t.o.Log.Debug("image was pulled, imported or tagged again", "image", i.ID, "references", i.References, "at", at)
	return r
}

// Changed reports whether a process other than ebb has written names of an image since the runtime
// listed it.
func (t *Tracker) Changed(i inventory.Image) bool {
	return !i.Updated.Equal(t.images.known[i.ID].Updated) && !t.ours(i)
}

// ours reports whether ebb wrote an image's names last, when it restored them. It is true while the
// names of a withdrawn image are not restored yet, also if an earlier agent withdrew it.
func (t *Tracker) ours(i inventory.Image) bool {
	a, ok := t.away[i.ID]
	return ok && (a.back.IsZero() || !t.clock.FromWall(i.Updated).After(a.back))
}

// Removed records that ebb has removed an image. If the image is listed after that, it was pulled
// again, and counts as new.
func (t *Tracker) Removed(d image.Decision, references []string, now time.Time) {
	r := t.images.records[d.ImageID]
	t.removed.add(d.ImageID, state.Removed{
		At: now, Reason: string(d.Reason), Bytes: d.FreesBytes, References: references, LastUsed: r.LastUsed, Again: r.Again,
	})
	delete(t.images.records, d.ImageID)
	delete(t.away, d.ImageID)
}

// Harvest adds the kernel's stamps to the records.
func (t *Tracker) Harvest() { t.stamps.harvest() }

// UsedSince asks the kernel whether an image was used later than its record shows. It returns the
// answer in words; "" if it was not.
func (t *Tracker) UsedSince(i inventory.Image) string { return t.stamps.usedSince(i) }

// Purge makes room in the kernel: it deletes uses that no layer has claimed for a day.
func (t *Tracker) Purge() { t.stamps.purge() }

// AllUsedNow is called when stamps were lost. Every image on record then counts as used until now,
// because it may have been.
func (t *Tracker) AllUsedNow(why string) {
	t.o.Log.Warn("last-use stamps were lost; every image counts as used until now", "reason", why)
	t.images.allUsedAt(t.clock.Now())
}

// Withdrawn records that an image loses its names now, for its removal.
func (t *Tracker) Withdrawn(id string, now time.Time) { t.away.taken(id, now) }

// Renewed records that an image was pulled, imported or tagged again while its names were away. Its date
// cannot show that once ebb has restored its other names.
func (t *Tracker) Renewed(id string) {
	if r, ok := t.images.records[id]; ok {
		now := t.clock.Now()
		r.Arrived, r.LastUsed = clock.Latest(r.Arrived, now), clock.Latest(r.LastUsed, now)
		t.images.records[id] = r
	}
}

// NotWithdrawn records that an image has kept its names after all.
func (t *Tracker) NotWithdrawn(id string) { delete(t.away, id) }

// Back records that images have their names again. The runtime has given these a new date. The records
// keep that date, so that the next agent, too, treats the images as old as they were.
func (t *Tracker) Back(ids ...string) {
	t.away.back(t.clock.Now(), ids...)
	for _, id := range ids {
		if r, ok := t.images.records[id]; ok {
			r.Updated = clock.Latest(r.Updated, t.clock.Wall())
			t.images.records[id] = r
		}
	}
}

// NoneWithdrawn is called when all withdrawals have ended. An image that is missing then, and was not
// restored, is gone.
func (t *Tracker) NoneWithdrawn() { t.away.ended() }

// Late reports whether an image is missing that the runtime should list in a moment.
func (t *Tracker) Late(missing func(id string) bool) bool { return t.away.late(t.clock.Now(), missing) }

// AnyAway reports whether an image is missing because ebb withdrew it.
func (t *Tracker) AnyAway(missing func(id string) bool) bool {
	return t.away.any(t.clock.Now(), missing)
}

// EventsBroke records that the event stream broke off.
func (t *Tracker) EventsBroke() { t.containers.broke() }

// EventsBack records that events arrive since that time. After a break it may be another runtime, or
// one with another configuration.
func (t *Tracker) EventsBack(at time.Time) {
	if t.containers.back(at) {
		clear(t.layers.blind)
	}
}

// HearsEvents reports whether the runtime's events arrive.
func (t *Tracker) HearsEvents() bool { return !t.containers.since.IsZero() }

// Event records a use that a runtime event reports: a container was made, or its process began or
// ended. The removal of a container counts only if no event reported its end. The kernel records these
// uses, too, and to the nanosecond. Events are what remains where there are no programs, and for root
// filesystems that are not overlayfs.
func (t *Tracker) Event(e inventory.Event, at time.Time) {
	id := ""
	switch {
	case e.Used:
		id = t.containers.event(e, at, t.clock.Now(), t.images.named)
	case e.Kind == inventory.EventContainer:
		id = t.containers.removed(e, at, t.clock.Now())
	}
	if id != "" {
		t.images.used(map[string]time.Time{id: at})
	}
}
