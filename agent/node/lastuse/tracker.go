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

// Options is what a Tracker is made of.
type Options struct {
	Probes     Probes // nil: there are no kernel programs
	Disk       Disk
	Conditions *condition.Set
	Log        *slog.Logger
	Metrics    *Metrics
	Tell       func(events.Fact) // tells people
	Settled    func()            // called when all layers that are here are known to the kernel
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
	t := &Tracker{o: &o, away: make(awayImages), containers: newContainers(), removed: removedImages{o: &o}}
	t.layers = newLayers(&o, &t.images)
	t.stamps = stamps{o: &o, images: &t.images, tracked: &t.layers.tracked, fresh: make(map[string]bool)}
	return t
}

// Restore takes over the records of an earlier agent, before anything else is called.
func (t *Tracker) Restore(c *clock.Clock, r state.Records) {
	t.clock, t.layers.clock, t.stamps.clock = c, c, c
	t.images.records, t.removed.records, t.containers.records, t.layers.records = r.Images, r.Removed, r.Containers, r.Layers
	t.images.listed = r.Meta.Listed
}

// Save puts a copy of the records among those that are to be written.
func (t *Tracker) Save(r *state.Records) {
	r.Images, r.Removed = maps.Clone(t.images.records), maps.Clone(t.removed.records)
	r.Containers, r.Layers = maps.Clone(t.containers.records), maps.Clone(t.layers.records)
	r.Meta.Listed = t.images.listed
}

// Layers are those of the images.
func (t *Tracker) Layers() *Layers { return t.layers }

// Known are the images that the runtime listed last, by ID; nil before its first list. They
// are not to be changed.
func (t *Tracker) Known() map[string]inventory.Image { return t.images.known }

// Image is what is on record of an image.
func (t *Tracker) Image(id string) state.Image { return t.images.records[id] }

// Records are a copy of what is on record, by ID.
func (t *Tracker) Records() map[string]state.Image { return maps.Clone(t.images.records) }

// Uses counts the known images that are in use, and has for each of the others since when it
// is not, as far as was seen.
func (t *Tracker) Uses() (inUse int, last []time.Time) { return t.images.uses() }

// Listed brings the records in line with an inventory that was asked for at that time. It
// returns the images that are gone. While unmended, images whose names an earlier agent has
// taken away may be missing.
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

// arrived is the record of an image that was not listed before. One that comes back after its
// removal is as new as others: were it as old as it was, it would be the next one to go, and would
// be pulled in a circle.
func (t *Tracker) arrived(i inventory.Image, now time.Time) state.Image {
	r := state.Image{Observed: now, Arrived: now, Again: t.removed.cameBack(i, now)}
	if !i.Updated.IsZero() {
		// It came before it was seen, and may have been used since; but not before the last
		// time that it was not there.
		r.Arrived = clock.Latest(t.images.listed, t.clock.FromWall(i.Updated))
	}
	return r
}

// renewed is the record of an image that somebody has pulled, imported or tagged although it is there:
// they want it. It counts as used and as new from then on. If ebb itself has put its names back, nothing
// has changed.
func (t *Tracker) renewed(r state.Image, i inventory.Image) state.Image {
	if t.ours(i) {
		return r
	}
	at := t.clock.FromWall(i.Updated)
	r.Arrived, r.LastUsed = clock.Latest(r.Arrived, at), clock.Latest(r.LastUsed, at)
	t.o.Log.Debug("image was pulled, imported or tagged again", "image", i.ID, "references", i.References, "at", at)
	return r
}

// Changed reports whether somebody has written names of an image since the runtime listed it.
func (t *Tracker) Changed(i inventory.Image) bool {
	return !i.Updated.Equal(t.images.known[i.ID].Updated) && !t.ours(i)
}

// ours reports whether it was ebb that wrote an image's names last, when it put them back. While an earlier
// agent's are not mended yet, it is.
func (t *Tracker) ours(i inventory.Image) bool {
	a, ok := t.away[i.ID]
	return ok && (a.back.IsZero() || !t.clock.FromWall(i.Updated).After(a.back))
}

// Removed is for an image that is gone by ebb's doing, and remembered as such. Should it be listed
// nevertheless, somebody has pulled it meanwhile, and it has only just come.
func (t *Tracker) Removed(d image.Decision, references []string, now time.Time) {
	r := t.images.records[d.ImageID]
	t.removed.add(d.ImageID, state.Removed{
		At: now, Reason: string(d.Reason), Bytes: d.FreesBytes, References: references, LastUsed: r.LastUsed, Again: r.Again,
	})
	delete(t.images.records, d.ImageID)
	delete(t.away, d.ImageID)
}

// Harvest takes over the kernel's stamps.
func (t *Tracker) Harvest() { t.stamps.harvest() }

// UsedSince asks the kernel whether an image was used since it was planned to go; "" if not.
func (t *Tracker) UsedSince(i inventory.Image) string { return t.stamps.usedSince(i) }

// Purge makes room in the kernel: uses go that nobody has claimed for a day.
func (t *Tracker) Purge() { t.stamps.purge() }

// AllUsedNow is the safe answer when stamps were lost: whatever is on record may have
// been used until now.
func (t *Tracker) AllUsedNow(why string) {
	t.o.Log.Warn("last-use stamps were lost; every image counts as used until now", "reason", why)
	t.images.allUsedAt(t.clock.Now())
}

// Withdrawn is for an image that loses its names now, on its way out.
func (t *Tracker) Withdrawn(id string, now time.Time) { t.away.taken(id, now) }

// NotWithdrawn is for an image that has kept its names after all.
func (t *Tracker) NotWithdrawn(id string) { delete(t.away, id) }

// Back is for images that have their names again. The runtime has dated those anew. That is on record, so
// that the next agent, too, takes them for as old as they were.
func (t *Tracker) Back(ids ...string) {
	t.away.back(t.clock.Now(), ids...)
	for _, id := range ids {
		if r, ok := t.images.records[id]; ok {
			r.Updated = clock.Latest(r.Updated, t.clock.Wall())
			t.images.records[id] = r
		}
	}
}

// NoneWithdrawn is for when all withdrawals have ended. An image that misses and is not back is gone.
func (t *Tracker) NoneWithdrawn() { t.away.ended() }

// Late reports whether an image is missing that the runtime should list in a moment.
func (t *Tracker) Late(missing func(id string) bool) bool { return t.away.late(t.clock.Now(), missing) }

// AnyAway reports whether an image is missing through our own doing.
func (t *Tracker) AnyAway(missing func(id string) bool) bool { return t.away.any(missing) }

// EventsBroke is for events that break off.
func (t *Tracker) EventsBroke() { t.containers.broke() }

// EventsBack is for events that come, since that time. It may be another runtime now, or be set
// up otherwise.
func (t *Tracker) EventsBack(at time.Time) {
	if t.containers.back(at) {
		clear(t.layers.blind)
	}
}

// HearsEvents reports whether the runtime's events come.
func (t *Tracker) HearsEvents() bool { return !t.containers.since.IsZero() }

// Event records a use that a runtime event tells of: that a container was made, or its
// process began or ended; that it was removed only if its end was not reported. The kernel knows
// it too and to the nanosecond; this is what remains where there are no programs, and for root
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
