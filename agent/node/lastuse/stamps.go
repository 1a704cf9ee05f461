package lastuse

import (
	"log/slog"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// notedFor is how long the kernel keeps uses of directories that nobody has resolved:
// those of other runtimes are never claimed and would fill the table.
const notedFor = 24 * time.Hour

// stamps are the uses that the kernel stamps.
type stamps struct {
	o       *Options
	clock   *clock.Clock
	images  *images
	tracked *tracked

	fresh map[string]bool // images stamped since the runtime was last asked, by ID
	lost  uint64          // uses that the kernel found no room for, ever
}

// harvest takes them over. An image unpacked in several namespaces was used when any of its
// layers was.
func (s *stamps) harvest() {
	if s.o.Probes == nil {
		return
	}
	stamped, err := s.o.Probes.LastUses()
	if err != nil {
		s.o.Conditions.Begin("harvest", slog.LevelError, "the kernel's last-use stamps cannot be read", "error", err)
		return
	}
	s.o.Conditions.End("harvest", "the kernel's last-use stamps can be read again")
	s.noteLost()
	for id, i := range s.images.known {
		arrived := s.images.records[id].Arrived
		for _, l := range i.Layers {
			layer, ok := s.tracked.layers[l]
			if !ok {
				continue
			}
			if ns := stamped[layer.key]; ns > 0 && s.isOf(layer, ns, arrived) {
				at := s.clock.AtBoot(ns)
				s.fresh[id] = s.fresh[id] || at.After(s.images.listed)
				s.images.usedAt(id, at)
			}
		}
	}
}

// isOf is whether a stamp is of that layer of an image. One from before the layer was made is of
// another directory that had the same inode number. When the image arrived tells less: what its
// record was last updated at may be after a first use.
func (s *stamps) isOf(l trackedLayer, ns uint64, arrived time.Time) bool {
	at := s.clock.AtBoot(ns)
	return at.After(arrived) || !l.made.IsZero() && at.After(s.clock.FromWall(l.made))
}

// noteLost is for uses of layers that the kernel does not track yet, and had no room to
// note. They can be of any image that is not tracked, and of no other; once it is, it loses
// none. So a table that stays full, of directories that are none of ours, makes nothing recent
// for longer than it takes to resolve it.
func (s *stamps) noteLost() {
	n, err := s.o.Probes.Counters()
	if err != nil || n.UnresolvedLost <= s.lost {
		return // the metrics report an unreadable counter
	}
	s.lost = n.UnresolvedLost
	s.images.someUsedAt(s.clock.Now(), func(l inventory.Layer) bool { return !s.tracked.has(l) })
	s.o.Conditions.Begin("lost uses", slog.LevelWarn, "the kernel's table of uses was full; images that it did not track yet count as used now",
		"lost", n.UnresolvedLost)
}

// usedSince asks the kernel whether an image was used since its record says; "" if not.
func (s *stamps) usedSince(i inventory.Image) string {
	if s.o.Probes == nil {
		return ""
	}
	planned := s.images.records[i.ID]
	for _, l := range i.Layers {
		layer, ok := s.tracked.layers[l]
		if !ok {
			continue
		}
		ns, ok, err := s.o.Probes.LastUse(layer.key)
		if err != nil {
			return "its last use cannot be read: " + err.Error()
		}
		if used := s.clock.AtBoot(ns); ok && used.After(planned.LastUsed) && s.isOf(layer, ns, planned.Arrived) {
			s.images.usedAt(i.ID, used)
			return "used since the plan was made"
		}
	}
	return ""
}

// purge makes room in the kernel: uses go that nobody has claimed for a day.
func (s *stamps) purge() {
	if s.o.Probes == nil {
		return
	}
	if before := s.clock.Boot() - notedFor; before > 0 {
		if err := s.o.Probes.Purge(uint64(before)); err != nil {
			s.o.Log.Debug("purge noted uses", "error", err)
		}
	}
}
