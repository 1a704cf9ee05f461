package lastuse

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// images has the records of the images, and what the runtime listed last.
type images struct {
	records map[string]state.Image     // by ID
	known   map[string]inventory.Image // by ID; nil before the first list
	listed  time.Time                  // when the latest list was requested; zero: never
}

// list takes over a list that was requested at asked. An image that was in use then was last used then.
// record returns the record of an image that is new, or whose names were written since the last list.
// It gets the old record; nil if there is none yet.
func (s *images) list(list []inventory.Image, asked time.Time, record func(inventory.Image, *state.Image) state.Image) {
	before := s.known
	s.known = make(map[string]inventory.Image, len(list))
	for _, i := range list {
		s.known[i.ID] = i
		r, ok := s.records[i.ID]
		if !ok {
			r = record(i, nil)
		} else if !r.Updated.IsZero() && (i.Updated.After(r.Updated) || rewritten(before[i.ID], i)) {
			r = record(i, &r)
		}
		r.Updated = i.Updated
		if i.InUse {
			r.LastUsed = clock.Latest(r.LastUsed, asked)
		}
		s.records[i.ID] = r
	}
}

// rewritten reports whether names were written by a clock that had been set back: their newest date is
// older than it was, although no name is gone.
func rewritten(was, is inventory.Image) bool {
	return is.Updated.Before(was.Updated) && len(is.References) >= len(was.References)
}

// forgetMissing deletes the records of images that the latest list lacks, unless keeps returns true for
// them. It returns the IDs of the deleted ones, and whether any was kept.
func (s *images) forgetMissing(keeps func(id string) bool) (gone []string, kept bool) {
	for id := range s.records {
		if _, ok := s.known[id]; ok {
			continue
		}
		if keeps(id) {
			kept = true
			continue
		}
		delete(s.records, id)
		gone = append(gone, id)
	}
	return gone, kept
}

// named returns the ID of the image with that reference; "" if there is none.
func (s *images) named(reference string) string {
	for id, i := range s.known {
		if slices.Contains(i.References, reference) {
			return id
		}
	}
	return ""
}

// uses counts the known images that are in use. For each of the others it returns the last use or, if
// none is known, when it was first seen.
func (s *images) uses() (inUse int, last []time.Time) {
	for id, i := range s.known {
		switch r := s.records[id]; {
		case i.InUse:
			inUse++
		case r.LastUsed.IsZero():
			last = append(last, r.Observed)
		default:
			last = append(last, r.LastUsed)
		}
	}
	return inUse, last
}

// used records uses of images, by ID. They count as uses of the images with the same layers, too. An
// image on record need not be listed yet.
func (s *images) used(uses map[string]time.Time) {
	if len(uses) == 0 {
		return
	}
	layers := make(map[inventory.Layer]time.Time, len(uses))
	for id, at := range uses {
		s.usedAt(id, at)
		for _, l := range s.known[id].Layers {
			layers[l] = clock.Latest(layers[l], at)
		}
	}
	for id, i := range s.known {
		for _, l := range i.Layers {
			s.usedAt(id, layers[l])
		}
	}
}

// usedAt records a use of an image, unless a later one is on record.
func (s *images) usedAt(id string, at time.Time) {
	if r, ok := s.records[id]; ok && at.After(r.LastUsed) {
		r.LastUsed = at
		s.records[id] = r
	}
}

// allUsedAt records that all images may have been used until then, because uses were lost.
func (s *images) allUsedAt(at time.Time) {
	for id := range s.records {
		s.usedAt(id, at)
	}
}

// someUsedAt is allUsedAt for the images that have one of these layers.
func (s *images) someUsedAt(at time.Time, which func(l inventory.Layer) bool) {
	for id, i := range s.known {
		if slices.ContainsFunc(i.Layers, which) {
			s.usedAt(id, at)
		}
	}
}
