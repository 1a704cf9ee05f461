package state

import (
	"time"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Image is what ebb remembers of an image. Times are by ebb's own clock.
type Image struct {
	Observed time.Time `json:"observed"` // when ebb first saw it
	Arrived  time.Time `json:"arrived"`  // when it was pulled or imported
	LastUsed time.Time `json:"lastUsed"` // zero: no use seen yet
}

// Layer is a resolved layer. Birth is the directory's creation time as the
// filesystem has it (ns, 0 if it has none): with the inode number it tells
// whether the directory is still the one that was resolved.
type Layer struct {
	inventory.LayerRoot
	Birth int64 `json:"birth"`
}

// Anchor ties ebb's clock to a boot: at Boot after it (CLOCK_BOOTTIME), the
// clock stood at Wall.
type Anchor struct {
	BootID string        `json:"bootID"`
	Boot   time.Duration `json:"bootNS"`
	Wall   time.Time     `json:"wall"`
}

// Meta is everything there is only one of.
type Meta struct {
	Anchor   Anchor      `json:"anchor"`
	Saved    time.Time   `json:"saved"` // ebb's clock at the last write
	Removals []time.Time `json:"removals,omitempty"`

	Reclaim         // on the filesystem of the unpacked layers
	Content Reclaim `json:"content,omitzero"` // on that of the blobs, if it is another one
}

// Reclaim is how far reclaim has come on one filesystem.
type Reclaim struct {
	Hold *image.Hold `json:"hold,omitempty"`

	// Reclaiming says that a run has begun and not reached its low line: it
	// goes on there, also after a restart.
	ReclaimingBytes  bool `json:"reclaimingBytes,omitempty"`
	ReclaimingInodes bool `json:"reclaimingInodes,omitempty"`
}

// Records is the whole state.
type Records struct {
	Meta   Meta
	Images map[string]Image // by image ID
	Layers map[inventory.Layer]Layer
}

// New returns empty records.
func New() Records {
	return Records{Images: make(map[string]Image), Layers: make(map[inventory.Layer]Layer)}
}

// Shift moves every time by d. It is called once at the first start after a
// reboot, with the time that has passed by the wall clock since the last
// write: ages then go on where they stood, whether the node was off for a week
// or its clock is wrong by one.
func (r *Records) Shift(d time.Duration) {
	move := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return t.Add(d)
	}
	for id, i := range r.Images {
		r.Images[id] = Image{Observed: move(i.Observed), Arrived: move(i.Arrived), LastUsed: move(i.LastUsed)}
	}
	for n, t := range r.Meta.Removals {
		r.Meta.Removals[n] = move(t)
	}
	for _, h := range []*image.Hold{r.Meta.Hold, r.Meta.Content.Hold} {
		if h != nil {
			h.Since = move(h.Since)
		}
	}
	r.Meta.Saved = move(r.Meta.Saved)
}

// Clone returns a deep copy, to be written while the owner goes on.
func (r *Records) Clone() Records {
	c := Records{Meta: r.Meta, Images: make(map[string]Image, len(r.Images)), Layers: make(map[inventory.Layer]Layer, len(r.Layers))}
	c.Meta.Removals = append([]time.Time(nil), r.Meta.Removals...)
	c.Meta.Hold, c.Meta.Content.Hold = cloneHold(r.Meta.Hold), cloneHold(r.Meta.Content.Hold)
	for k, v := range r.Images {
		c.Images[k] = v
	}
	for k, v := range r.Layers {
		c.Layers[k] = v
	}
	return c
}

func cloneHold(h *image.Hold) *image.Hold {
	if h == nil {
		return nil
	}
	hold := *h
	hold.Space = append([]image.Space(nil), h.Space...)
	return &hold
}
