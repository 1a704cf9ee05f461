package lastuse

import (
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// tracked are the layers whose uses the kernel stamps.
type tracked struct {
	probes  Probes
	log     *slog.Logger
	layers  map[inventory.Layer]trackedLayer
	refused map[inventory.Layer]bool // those that could not be tracked; true: for want of a slot, so their uses go unseen
}

// trackedLayer is the kernel's key of a layer, and when the layer was made, by the wall clock; zero if
// the runtime does not report that.
type trackedLayer struct {
	key  bpf.Key
	made time.Time
}

func newTracked(o *Options) tracked {
	return tracked{
		probes: o.Probes, log: o.Log, layers: make(map[inventory.Layer]trackedLayer), refused: make(map[inventory.Layer]bool),
	}
}

func (s *tracked) has(l inventory.Layer) bool { _, ok := s.layers[l]; return ok }

// add has the kernel stamp a layer. The kernel side takes over a use that came before. With an error,
// unseen is true if the layer's uses go unseen from now on.
func (s *tracked) add(l inventory.Layer, at trackedLayer) (unseen bool, err error) {
	err = s.probes.Track(at.key)
	if errors.Is(err, bpf.ErrFull) {
		s.removeOthers()
		err = s.probes.Track(at.key)
	}
	if err != nil {
		unseen = errors.Is(err, bpf.ErrFull) && !s.refused[l]
		s.refused[l] = s.refused[l] || unseen
		return unseen, err
	}
	delete(s.refused, l)
	s.layers[l] = at
	return false, nil
}

// keep forgets the layers that are no longer live. It returns true if there were any, which the kernel
// still stamps.
func (s *tracked) keep(live map[inventory.Layer]bool) (left bool) {
	before := len(s.layers)
	maps.DeleteFunc(s.layers, func(l inventory.Layer, _ trackedLayer) bool { return !live[l] })
	maps.DeleteFunc(s.refused, func(l inventory.Layer, _ bool) bool { return !live[l] })
	return len(s.layers) < before
}

// removeOthers ends the stamping of all layers that are not in s.layers.
func (s *tracked) removeOthers() {
	ours := make(map[bpf.Key]bool, len(s.layers))
	for _, l := range s.layers {
		ours[l.key] = true
	}
	for _, k := range s.probes.Tracked() {
		if ours[k] {
			continue
		}
		if err := s.probes.Untrack(k); err != nil {
			s.log.Debug("untrack layer", "error", err)
		}
	}
}
