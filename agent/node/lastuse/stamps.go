package lastuse

import (
	"log/slog"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// notedFor is how long the kernel keeps uses of directories that were not resolved. Those of other
// runtimes are never claimed, and would fill the table.
const notedFor = 24 * time.Hour

// lostQuiet is how long no use must have been lost until that trouble counts as over.
const lostQuiet = 10 * time.Minute

// stamps are the uses that the kernel stamps.
type stamps struct {
	o       *Options
	clock   *clock.Clock
	images  *images
	tracked *tracked

	fresh  map[string]bool // images stamped since the latest list was requested, by ID
	lost   uint64          // how many uses the kernel had found no room for when it was last asked
	lostAt time.Time       // when that number grew
}

// harvest adds the kernel's stamps to the records. An image that is unpacked in several namespaces was
// used when any of its layers was.
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

// isOf reports whether a stamp belongs to that layer of an image. A stamp from before the layer was
// made belongs to another directory that had the same inode number. The arrival of the image proves
// less: it can be the time of a later update of its names, after a first use.
func (s *stamps) isOf(l trackedLayer, ns uint64, arrived time.Time) bool {
	at := s.clock.AtBoot(ns)
	return at.After(arrived) || !l.made.IsZero() && at.After(s.clock.FromWall(l.made))
}

// noteLost handles uses of layers that the kernel does not track yet, and had no room to note. They can
// be of any image that is not tracked, and of no other. Once an image is tracked, it loses none. So
// even if foreign directories keep the table full, an image counts as recent only until it is resolved.
func (s *stamps) noteLost() {
	n, err := s.o.Probes.Counters()
	switch {
	case err != nil:
		return // the metrics report an unreadable counter
	case n.UnresolvedLost <= s.lost:
		if s.clock.Now().Sub(s.lostAt) >= lostQuiet {
			s.o.Conditions.End("lost uses", "the kernel has room to note uses again")
		}
		return
	}
	s.lost, s.lostAt = n.UnresolvedLost, s.clock.Now()
	s.images.someUsedAt(s.clock.Now(), func(l inventory.Layer) bool { return !s.tracked.has(l) })
	s.o.Conditions.Begin("lost uses", slog.LevelWarn, "the kernel's table of uses was full; images that it did not track yet count as used now",
		"lost", n.UnresolvedLost)
}

// usedSince asks the kernel whether an image was used later than its record shows. It returns the
// answer in words; "" if it was not.
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

// purge makes room in the kernel: it deletes uses that no layer has claimed for a day.
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
