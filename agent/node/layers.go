package node

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// resolveRetry is how long a layer that could not be resolved is left alone, and
// resolveMost what that grows to, twice as long each time. While the disk is full,
// asking again is pointless and costs the runtime a write each time.
const (
	resolveRetry = time.Minute
	resolveMost  = 5 * time.Minute
)

// resolution is the resolver's answer on one layer.
type resolution struct {
	layer inventory.Layer
	found state.Layer
	err   error
	last  bool // the batch is done
}

// layerBook says which layers the kernel is told about, and which are still to
// be resolved. It belongs to the loop.
type layerBook struct {
	tracked map[inventory.Layer]bpf.Key
	refused map[inventory.Layer]bool // no slot in the kernel: their uses go unseen
	retry   map[inventory.Layer]failure
	blind   map[inventory.Layer]bool // without a directory that could be found, whenever it is asked for
	busy    bool                     // the resolver has a batch
	found   int                      // of that batch
	failed  int
	claimed bool // what the kernel tracks and no image has is sorted out
	away    bool // images that are remembered miss from the list, and their layers with them

	usesLost uint64 // those that the kernel found no room for, ever
}

func newLayerBook() layerBook {
	return layerBook{
		tracked: make(map[inventory.Layer]bpf.Key),
		refused: make(map[inventory.Layer]bool),
		retry:   make(map[inventory.Layer]failure),
		blind:   make(map[inventory.Layer]bool),
	}
}

// unsettled: there are layers that the kernel may know and this process does not
// yet. Those of a snapshotter without directories do not count: they never settle.
func (b *layerBook) unsettled() bool { return b.busy || len(b.retry) > 0 }

// later leaves a layer alone for a while, and returns until when.
func (b *layerBook) later(l inventory.Layer, now time.Time) time.Time {
	f := b.retry[l]
	f.until = now.Add(min(resolveRetry<<min(f.times, 10), resolveMost))
	f.times++
	b.retry[l] = f
	return f.until
}

func (b *layerBook) key(l inventory.Layer) (bpf.Key, bool) {
	k, ok := b.tracked[l]
	return k, ok
}

// trackKnown tracks the layers whose place is on record and still true, and
// returns the others. It comes before each harvest: what was used while no agent
// ran must count in the first decision.
func (a *Agent) trackKnown(now time.Time) (unknown []inventory.Layer) {
	if a.probes == nil {
		return nil
	}
	for _, i := range a.known {
		for _, l := range i.Layers {
			if _, ok := a.layers.tracked[l]; ok || a.layers.blind[l] || now.Before(a.layers.retry[l].until) {
				continue
			}
			if known, ok := a.rec.Layers[l]; ok && a.stillThere(known) {
				a.track(l, known)
				continue
			}
			unknown = append(unknown, l)
		}
	}
	return unknown
}

// resolveMore asks the resolver where the layers are whose place is not known.
func (a *Agent) resolveMore(now time.Time) {
	if a.probes == nil || a.layers.busy {
		return
	}
	ask := a.trackKnown(now)
	a.metrics.tracked.Set(float64(len(a.layers.tracked)))
	if len(ask) == 0 {
		a.untrackStrangers()
		return
	}
	slices.SortFunc(ask, compareLayers) // a map's order would make runs differ
	a.layers.busy = true
	a.toResolve <- ask
}

// resolve is the resolver's goroutine: it alone waits for the runtime to make
// and remove Views.
func (a *Agent) resolve(ctx context.Context) error {
	for {
		var batch []inventory.Layer
		select {
		case <-ctx.Done():
			return nil
		case batch = <-a.toResolve:
		}
		for n, l := range batch {
			r := resolution{layer: l, last: n == len(batch)-1}
			r.found, r.err = a.resolveOne(ctx, l)
			select {
			case <-ctx.Done():
				return nil
			case a.resolved <- r:
			}
		}
	}
}

func (a *Agent) resolveOne(ctx context.Context, l inventory.Layer) (state.Layer, error) {
	rt := a.resolverRuntime.Load()
	root, err := (*rt).ResolveLayer(ctx, l)
	if err != nil {
		return state.Layer{}, err
	}
	d, err := a.disk.Directory(root.Path)
	return state.Layer{LayerRoot: root, Birth: d.Birth}, err
}

// layerResolved takes one answer of the resolver.
func (a *Agent) layerResolved(r resolution) {
	now := a.clock.now()
	if r.last {
		defer a.batchResolved(now)
	}
	switch {
	case errors.Is(r.err, inventory.ErrNotFound):
		return // it went in the meantime; the next look knows
	case r.err != nil:
		if errors.Is(r.err, inventory.ErrUnsupported) { // until there is another runtime
			a.layers.blind[r.layer] = true
			delete(a.layers.retry, r.layer)
		} else {
			a.alarms.sooner(alarmResolve, a.layers.later(r.layer, now))
		}
		a.layers.failed++
		a.metrics.unresolved.Inc()
		a.said.once(a.log, "resolve", slog.LevelWarn, "a layer's directory cannot be found yet; its uses wait in the kernel",
			"layer", r.layer.ChainID, "namespace", r.layer.Namespace, "error", r.err)
		return
	}
	a.layers.found++
	a.rec.Layers[r.layer] = r.found
	a.track(r.layer, r.found)
}

// batchResolved is for when all layers of a batch were answered. Where none was found, to
// ask again at once would find none.
func (a *Agent) batchResolved(now time.Time) {
	found, failed := a.layers.found, a.layers.failed
	a.layers.busy, a.layers.found, a.layers.failed = false, 0, 0
	if found > 0 {
		if failed == 0 {
			a.said.clear(a.log, "resolve", "layers can be resolved again")
		}
		a.save()
		a.resolveMore(now) // what arrived while the batch was under way
	}
	a.indexHeat()
}

// track tells the kernel to stamp a layer. A use that came before is taken
// over by the kernel side.
func (a *Agent) track(l inventory.Layer, at state.Layer) {
	key := keyOf(at.Place())
	err := a.probes.Track(key)
	if errors.Is(err, bpf.ErrFull) {
		a.untrackAllStrangers()
		err = a.probes.Track(key)
	}
	if err != nil {
		if errors.Is(err, bpf.ErrFull) && !a.layers.refused[l] {
			a.layers.refused[l] = true
			a.recent(l)
		}
		a.layers.later(l, a.clock.now())
		a.said.once(a.log, "track", slog.LevelError, "the kernel cannot track a layer; its last use comes from runtime events",
			"layer", l.ChainID, "error", err)
		return
	}
	delete(a.layers.refused, l)
	delete(a.layers.retry, l)
	a.layers.tracked[l] = key
}

// recent takes the images with a layer for used until now: nobody can tell.
func (a *Agent) recent(l inventory.Layer) {
	for id, i := range a.known {
		if slices.Contains(i.Layers, l) {
			r := a.rec.Images[id]
			r.LastUsed = a.clock.now()
			a.rec.Images[id] = r
		}
	}
}

// noteLostUses is for uses of layers that the kernel was not told of yet, and
// had no room to note. They can be of any image that is not tracked, and of no
// other; once it is, it loses none. So a table that stays full, of directories
// that are none of ours, makes nothing recent for longer than it takes to
// resolve it.
func (a *Agent) noteLostUses() {
	n, err := a.probes.Counters()
	if err != nil || n.UnresolvedLost <= a.layers.usesLost {
		return // an unreadable counter is told by the metrics
	}
	a.layers.usesLost = n.UnresolvedLost
	for _, i := range a.known {
		for _, l := range i.Layers {
			if _, tracked := a.layers.key(l); !tracked {
				a.recent(l)
			}
		}
	}
	a.said.once(a.log, "lost uses", slog.LevelWarn, "the kernel had no room to note uses; images it was not told of yet count as used until now",
		"lost", n.UnresolvedLost)
}

// untrackStrangers ends the tracking of layers that no image has any more. It is
// safe only once every layer that is here has been claimed: a new layer's
// directory can have the inode number of one that went, and have been used
// under it.
func (a *Agent) untrackStrangers() {
	if a.layers.claimed || len(a.layers.retry) > 0 || a.layers.away {
		return
	}
	a.layers.claimed = true
	a.alarms.set(alarmRest, a.clock.now().Add(restPause)) // all layers are known
	a.untrackAllStrangers()
}

func (a *Agent) untrackAllStrangers() {
	ours := make(map[bpf.Key]bool, len(a.layers.tracked))
	for _, k := range a.layers.tracked {
		ours[k] = true
	}
	for _, k := range a.probes.Tracked() {
		if ours[k] {
			continue
		}
		if err := a.probes.Untrack(k); err != nil {
			a.log.Debug("untrack layer", "error", err)
		}
	}
}

// dropLayers forgets layers that no image has any more. While images are away those of
// them that are still unpacked may be theirs.
func (a *Agent) dropLayers(inv *inventory.Inventory, away bool) {
	a.layers.away = away
	live := make(map[inventory.Layer]bool, len(inv.Images))
	for _, i := range inv.Images {
		for _, l := range i.Layers {
			live[l] = true
		}
	}
	for l := range inv.Snapshots {
		live[l] = live[l] || away
	}
	for l := range a.layers.tracked {
		if !live[l] {
			delete(a.layers.tracked, l)
			a.layers.claimed = false
		}
	}
	maps.DeleteFunc(a.rec.Layers, func(l inventory.Layer, _ state.Layer) bool { return !live[l] })
	maps.DeleteFunc(a.layers.retry, func(l inventory.Layer, _ failure) bool { return !live[l] })
	maps.DeleteFunc(a.layers.blind, func(l inventory.Layer, _ bool) bool { return !live[l] })
	maps.DeleteFunc(a.layers.refused, func(l inventory.Layer, _ bool) bool { return !live[l] })
}

// stillThere reports whether a recorded directory is still the one that was
// resolved. Layers that are filesystems are asked for again.
func (a *Agent) stillThere(l state.Layer) bool {
	d, err := a.disk.Directory(l.Path)
	return err == nil && d == Directory{Dev: l.Dev, Ino: l.Ino, Birth: l.Birth}
}

func compareLayers(a, b inventory.Layer) int {
	for _, c := range []int{strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Snapshotter, b.Snapshotter)} {
		if c != 0 {
			return c
		}
	}
	return strings.Compare(a.ChainID, b.ChainID)
}
