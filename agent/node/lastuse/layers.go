package lastuse

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/removal"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// resolveRetry is how long a layer that could not be resolved is left alone. The time doubles with each
// failure, up to resolveMost. While the disk is full, asking again is pointless and costs the runtime a
// write each time.
const (
	resolveRetry = time.Minute
	resolveMost  = 5 * time.Minute
)

// Layers are the top layers of images: where each is, so that the kernel stamps its
// uses, and which are still to be found.
type Layers struct {
	o       *Options
	clock   *clock.Clock
	images  *images
	tracked tracked

	records  map[inventory.Layer]state.Layer
	resolver resolver
	retry    removal.Failures[inventory.Layer]
	retryAt  time.Time                // when to ask again; zero: not planned
	blind    map[inventory.Layer]bool // the runtime has no directory for them
	claimed  bool                     // every layer is known, and the kernel tracks no others
	away     bool                     // some images are withdrawn, or in a broken snapshotter: the list lacks their layers
}

func newLayers(o *Options, i *images) *Layers {
	return &Layers{
		o: o, images: i, tracked: newTracked(o), resolver: newResolver(o.Disk),
		retry: removal.Failures[inventory.Layer]{First: resolveRetry, Most: resolveMost},
		blind: make(map[inventory.Layer]bool),
	}
}

// Run is the goroutine that waits for the runtime to make and remove Views. It sends its answers on
// Resolutions.
func (s *Layers) Run(ctx context.Context) error { return s.resolver.run(ctx) }

// Connected takes over the runtime that resolves layers from now on.
func (s *Layers) Connected(rt Resolver) { s.resolver.runtime = rt }

// Unsettled reports whether the kernel may know layers that this process does not know yet, or that no
// image on the list has now. Layers of a snapshotter without directories do not count: they never settle.
func (s *Layers) Unsettled() bool { return s.resolver.busy || s.retry.Len() > 0 || s.away }

// Root returns where a layer was found that the kernel tracks; the zero value for others.
func (s *Layers) Root(l inventory.Layer) inventory.LayerRoot {
	if !s.tracked.has(l) { // its recorded place was not checked in this run
		return inventory.LayerRoot{}
	}
	return s.records[l].LayerRoot
}

// ProbesCame is called when kernel programs were loaded that could not be loaded before. Layers that
// could not be tracked are tried again.
func (s *Layers) ProbesCame() { s.retry.Clear() }

// Resolve asks for the places of the layers for which none is known.
func (s *Layers) Resolve() {
	if s.o.Probes == nil || s.resolver.busy {
		return
	}
	unknown := s.untracked()
	s.o.Metrics.tracked.Set(float64(len(s.tracked.layers)))
	if len(s.tracked.refused) == 0 {
		s.o.Conditions.End("track", "the kernel tracks all layers again")
	}
	if len(unknown) == 0 {
		if s.retry.Len() == 0 && len(s.blind) == 0 {
			s.o.Conditions.End("resolve", "layers can be resolved again")
		}
		s.settled()
		return
	}
	slices.SortFunc(unknown, compareLayers) // a map's order would make runs differ
	s.resolver.ask(unknown, s.records)
}

// Next returns when to call ResolveDue; the zero time if that is not planned.
func (s *Layers) Next() time.Time { return s.retryAt }

// ResolveDue asks again for layers if a retry is due.
func (s *Layers) ResolveDue() {
	if clock.Came(s.retryAt, s.clock.Now()) {
		s.retryAt = time.Time{}
		s.Resolve()
	}
}

// Resolutions receives the resolver's answers. Each is for Resolved.
func (s *Layers) Resolutions() <-chan Resolution { return s.resolver.answers }

// Resolved handles one answer of the resolver. done is true at the end of a batch; news is true if the
// batch has changed the records.
func (s *Layers) Resolved(r Resolution) (done, news bool) {
	s.take(r)
	if !r.last {
		return false, false
	}
	found := s.resolver.done()
	if found > 0 { // if none was found, asking again at once would find none
		s.Resolve() // what arrived while the batch was under way
	}
	return true, found > 0
}

func (s *Layers) take(r Resolution) {
	switch {
	case errors.Is(r.err, inventory.ErrNotFound):
		return // the layer is gone; the next look notices
	case r.err == nil:
		s.resolver.found++
		s.records[r.layer] = r.found
		s.track(r.layer, r.found)
		return
	case errors.Is(r.err, inventory.ErrUnsupported): // until another runtime is connected
		s.blind[r.layer] = true
		s.retry.Forget(r.layer)
	default:
		s.retryAt = clock.Earliest(s.retryAt, s.later(r.layer))
	}
	s.o.Metrics.unresolved.Inc()
	s.o.Conditions.Begin("resolve", slog.LevelWarn, "a layer's directory cannot be found yet; its uses wait in the kernel",
		"layer", r.layer.ChainID, "namespace", r.layer.Namespace, "error", r.err)
}

// later leaves a layer alone for a while, and returns the end of that time.
func (s *Layers) later(l inventory.Layer) time.Time {
	now := s.clock.Now()
	_, wait := s.retry.Add(l, now)
	return now.Add(wait)
}

// keep forgets layers that no image has any more. While some images are away, it keeps every layer that
// is still unpacked, because it may be theirs, and it keeps every layer of a snapshotter that cannot be read.
func (s *Layers) keep(inv *inventory.Inventory, away bool) {
	s.away = away
	live := make(map[inventory.Layer]bool, len(inv.Images))
	for _, i := range inv.Images {
		s.away = s.away || i.Unread != ""
		for _, l := range i.Layers {
			live[l] = true
		}
	}
	for l := range inv.Snapshots {
		live[l] = live[l] || away
	}
	for l := range s.records {
		live[l] = live[l] || inv.Broken[l.Snapshotter] != ""
	}
	if s.tracked.keep(live) {
		s.claimed = false
	}
	maps.DeleteFunc(s.records, func(l inventory.Layer, _ state.Layer) bool { return !live[l] })
	s.retry.Keep(func(l inventory.Layer) bool { return live[l] })
	maps.DeleteFunc(s.blind, func(l inventory.Layer, _ bool) bool { return !live[l] })
}

// trackKnown tracks the layers whose recorded place is still true. It releases the lock while it looks at
// their directories, which can be thousands, and on a disk that has just started.
func (s *Layers) trackKnown() {
	known := slices.DeleteFunc(s.untracked(), func(l inventory.Layer) bool { _, ok := s.records[l]; return !ok })
	if len(known) == 0 {
		return
	}
	there, records := make([]bool, len(known)), make([]state.Layer, len(known))
	for n, l := range known {
		records[n] = s.records[l]
	}
	s.o.Outside(func() {
		for n, r := range records {
			there[n] = stillThere(s.o.Disk, r)
		}
	})
	for n, l := range known {
		if there[n] && !s.tracked.has(l) {
			s.track(l, records[n])
		}
	}
}

// untracked returns the layers that the kernel does not track, except those that cannot be resolved now.
func (s *Layers) untracked() (list []inventory.Layer) {
	if s.o.Probes == nil {
		return nil
	}
	now := s.clock.Now()
	for _, i := range s.images.known {
		for _, l := range i.Layers {
			if !s.tracked.has(l) && !s.blind[l] && !now.Before(s.retry.Until(l)) {
				list = append(list, l)
			}
		}
	}
	return list
}

// stillThere reports whether a recorded directory is still the one that was resolved. It is false for a
// layer that is a filesystem of its own: such a layer is resolved again.
func stillThere(disk Disk, l state.Layer) bool {
	d, err := disk.Directory(l.Path)
	return err == nil && d == Directory{Dev: l.Dev, Ino: l.Ino, Birth: l.Birth}
}

// track has the kernel stamp the uses of a layer.
func (s *Layers) track(l inventory.Layer, at state.Layer) {
	unseen, err := s.tracked.add(l, trackedLayer{key: KeyOf(at.Place()), made: at.Created})
	if err == nil {
		s.retry.Forget(l)
		return
	}
	if unseen {
		s.images.someUsedAt(s.clock.Now(), func(of inventory.Layer) bool { return of == l })
	}
	s.retryAt = clock.Earliest(s.retryAt, s.later(l))
	s.o.Conditions.Begin("track", slog.LevelError, "the kernel cannot track a layer; its last use comes from runtime events",
		"layer", l.ChainID, "error", err)
}

// settled ends the tracking of layers that no image has any more. That is safe only once every present
// layer has been claimed. The directory of a new layer can have the inode number of one that is gone,
// and its uses may be stamped under that number.
func (s *Layers) settled() {
	if s.claimed || s.retry.Len() > 0 || s.away {
		return
	}
	s.claimed = true
	s.o.Settled()
	s.tracked.removeOthers()
}

func compareLayers(a, b inventory.Layer) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Snapshotter, b.Snapshotter), cmp.Compare(a.ChainID, b.ChainID))
}
