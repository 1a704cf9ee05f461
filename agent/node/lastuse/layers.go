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

// resolveRetry is how long a layer that could not be resolved is left alone, and
// resolveMost what that grows to, twice as long each time. While the disk is full, asking
// again is pointless and costs the runtime a write each time.
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
	blind    map[inventory.Layer]bool // without a directory that could be found, whenever it is asked for
	claimed  bool                     // what the kernel tracks and no image has is sorted out
	away     bool                     // images that are remembered miss from the list, and their layers with them
}

func newLayers(o *Options, i *images) *Layers {
	return &Layers{
		o: o, images: i, tracked: newTracked(o), resolver: newResolver(o.Disk),
		retry: removal.Failures[inventory.Layer]{First: resolveRetry, Most: resolveMost},
		blind: make(map[inventory.Layer]bool),
	}
}

// Run is the goroutine that waits for the runtime to make and remove Views. Its answers are
// Resolutions.
func (s *Layers) Run(ctx context.Context) error { return s.resolver.run(ctx) }

// Connected takes over the runtime that layers are asked for from now on.
func (s *Layers) Connected(rt Resolver) { s.resolver.runtime = rt }

// Unsettled reports whether there are layers that the kernel may know and this process does not
// yet. Those of a snapshotter without directories do not count: they never settle.
func (s *Layers) Unsettled() bool { return s.resolver.busy || s.retry.Len() > 0 }

// Root is where a layer was found that the kernel tracks; zero for others.
func (s *Layers) Root(l inventory.Layer) inventory.LayerRoot {
	if !s.tracked.has(l) { // what is on record was not looked at in this run
		return inventory.LayerRoot{}
	}
	return s.records[l].LayerRoot
}

// ProbesCame is for kernel programs that could not be loaded before: layers that could not
// be tracked may be now.
func (s *Layers) ProbesCame() { s.retry.Clear() }

// Resolve asks for the layers whose place is not known.
func (s *Layers) Resolve() {
	if s.o.Probes == nil || s.resolver.busy {
		return
	}
	unknown := s.trackKnown()
	s.o.Metrics.tracked.Set(float64(len(s.tracked.layers)))
	if len(unknown) == 0 {
		s.settled()
		return
	}
	slices.SortFunc(unknown, compareLayers) // a map's order would make runs differ
	s.resolver.ask(unknown)
}

// Next is when to call ResolveDue; zero if that is not planned.
func (s *Layers) Next() time.Time { return s.retryAt }

// ResolveDue asks again for the layers whose time has come.
func (s *Layers) ResolveDue() {
	if clock.Came(s.retryAt, s.clock.Now()) {
		s.retryAt = time.Time{}
		s.Resolve()
	}
}

// Resolutions are the resolver's answers, each for Resolved.
func (s *Layers) Resolutions() <-chan Resolution { return s.resolver.answers }

// Resolved takes one answer of the resolver. done is true at the end of a batch; news, if the
// records have changed by it.
func (s *Layers) Resolved(r Resolution) (done, news bool) {
	s.take(r)
	if !r.last {
		return false, false
	}
	found, failed := s.resolver.done()
	if found > 0 { // where none was found, to ask again at once would find none
		if failed == 0 {
			s.o.Conditions.End("resolve", "layers can be resolved again")
		}
		s.Resolve() // what arrived while the batch was under way
	}
	return true, found > 0
}

func (s *Layers) take(r Resolution) {
	switch {
	case errors.Is(r.err, inventory.ErrNotFound):
		return // it went in the meantime; the next look knows
	case r.err == nil:
		s.resolver.found++
		s.records[r.layer] = r.found
		s.track(r.layer, r.found)
		return
	case errors.Is(r.err, inventory.ErrUnsupported): // until there is another runtime
		s.blind[r.layer] = true
		s.retry.Forget(r.layer)
	default:
		s.retryAt = clock.Earliest(s.retryAt, s.later(r.layer))
	}
	s.resolver.failed++
	s.o.Metrics.unresolved.Inc()
	s.o.Conditions.Begin("resolve", slog.LevelWarn, "a layer's directory cannot be found yet; its uses wait in the kernel",
		"layer", r.layer.ChainID, "namespace", r.layer.Namespace, "error", r.err)
}

// later leaves a layer alone for a while, and returns until when.
func (s *Layers) later(l inventory.Layer) time.Time {
	now := s.clock.Now()
	_, wait := s.retry.Add(l, now)
	return now.Add(wait)
}

// keep forgets layers that no image has any more. While images are away those of them that
// are still unpacked may be theirs.
func (s *Layers) keep(inv *inventory.Inventory, away bool) {
	s.away = away
	live := make(map[inventory.Layer]bool, len(inv.Images))
	for _, i := range inv.Images {
		for _, l := range i.Layers {
			live[l] = true
		}
	}
	for l := range inv.Snapshots {
		live[l] = live[l] || away
	}
	if s.tracked.keep(live) {
		s.claimed = false
	}
	maps.DeleteFunc(s.records, func(l inventory.Layer, _ state.Layer) bool { return !live[l] })
	s.retry.Keep(func(l inventory.Layer) bool { return live[l] })
	maps.DeleteFunc(s.blind, func(l inventory.Layer, _ bool) bool { return !live[l] })
}

// trackKnown tracks the layers whose place is on record and still true, and returns the
// others.
func (s *Layers) trackKnown() (unknown []inventory.Layer) {
	if s.o.Probes == nil {
		return nil
	}
	now := s.clock.Now()
	for _, i := range s.images.known {
		for _, l := range i.Layers {
			if s.tracked.has(l) || s.blind[l] || now.Before(s.retry.Until(l)) {
				continue
			}
			if known, ok := s.records[l]; ok && s.stillThere(known) {
				s.track(l, known)
				continue
			}
			unknown = append(unknown, l)
		}
	}
	return unknown
}

// stillThere reports whether a recorded directory is still the one that was resolved.
// Layers that are filesystems are asked for again.
func (s *Layers) stillThere(l state.Layer) bool {
	d, err := s.o.Disk.Directory(l.Path)
	return err == nil && d == Directory{Dev: l.Dev, Ino: l.Ino, Birth: l.Birth}
}

// track has the uses of a layer stamped.
func (s *Layers) track(l inventory.Layer, at state.Layer) {
	unseen, err := s.tracked.add(l, trackedLayer{key: KeyOf(at.Place()), made: at.Created})
	if err == nil {
		s.retry.Forget(l)
		return
	}
	if unseen {
		s.images.someUsedAt(s.clock.Now(), func(of inventory.Layer) bool { return of == l })
	}
	s.later(l)
	s.o.Conditions.Begin("track", slog.LevelError, "the kernel cannot track a layer; its last use comes from runtime events",
		"layer", l.ChainID, "error", err)
}

// settled ends the tracking of layers that no image has any more. That is safe only once
// every layer that is here has been claimed: a new layer's directory can have the inode
// number of one that went, and have been used under it.
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
