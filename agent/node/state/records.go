package state

import (
	"maps"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Image is what ebb remembers of an image. Times are by ebb's own clock.
type Image struct {
	Observed time.Time `json:"observed"` // when ebb first saw it
	Arrived  time.Time `json:"arrived"`  // when it was last pulled, imported or tagged
	LastUsed time.Time `json:"lastUsed"` // zero: no use seen yet

	Updated time.Time `json:"updated,omitzero"` // as the runtime has it (inventory.Image.Updated): compared, never computed with

	Again int `json:"again,omitempty"` // times it came back soon after its removal

	UsedBy string `json:"usedBy,omitempty"` // the latest user that a list of the containers has shown; for people
}

// Removed is what ebb remembers of an image that it removed.
type Removed struct {
	At         time.Time `json:"at"`
	Reason     string    `json:"reason"` // as in the plan
	Bytes      uint64    `json:"bytes"`  // freed, as computed
	References []string  `json:"references,omitempty"`
	LastUsed   time.Time `json:"lastUsed,omitzero"`
	Again      int       `json:"again,omitempty"` // times it had come back by then
}

// Observed is what an agent in mode observe remembers of an image that is gone, or would be.
type Observed struct {
	Would  time.Time `json:"would,omitzero"`  // when ebb would have removed it; zero: it would not
	Back   time.Time `json:"back,omitzero"`   // when it was needed again after that; zero: it was not
	Others time.Time `json:"others,omitzero"` // when it was removed without ebb; zero: it was not
}

// Observation is what an agent in mode observe has counted.
type Observation struct {
	Since    time.Time   `json:"since"`
	Ebb      Tally       `json:"ebb"`                // what it would have done
	Others   Tally       `json:"others"`             // what was done without ebb
	Removals []time.Time `json:"removals,omitempty"` // that ebb would have made in the last hour

	Runs map[string]Reclaim `json:"runs,omitempty"` // how far reclaim would have come, by the path of the filesystem
}

// Tally is the counts of one side of an Observation.
type Tally struct {
	Images    int           `json:"images"`
	Bytes     uint64        `json:"bytes"` // freed, as computed
	Inodes    uint64        `json:"inodes"`
	Again     int           `json:"again"`     // images that were needed again within a day
	PullBytes uint64        `json:"pullBytes"` // what pulls of those take at most
	Above     time.Duration `json:"aboveNS"`   // how long the disk was above its high threshold
}

// Container is what a container with a known image shows about the last use of the image.
type Container struct {
	Image string    `json:"image"`          // ID
	Ended time.Time `json:"ended,omitzero"` // the end that Image.LastUsed includes, if it has ended
}

// Layer is a resolved layer. Birth is the directory's creation time as the
// filesystem has it (ns, 0 if it has none): with the inode number it shows
// whether the directory is still the one that was resolved.
type Layer struct {
	inventory.LayerRoot
	Birth int64 `json:"birth"`
}

// Anchor ties ebb's clock to a boot: at CLOCK_BOOTTIME Boot of that boot, the clock read Wall.
type Anchor struct {
	BootID string        `json:"bootID"`
	Boot   time.Duration `json:"bootNS"`
	Wall   time.Time     `json:"wall"`
}

// Meta is the records of which there is only one.
type Meta struct {
	Anchor   Anchor      `json:"anchor"`
	Saved    time.Time   `json:"saved"` // ebb's clock at the last write
	Removals []time.Time `json:"removals,omitempty"`

	PodsAnswered time.Time `json:"podsAnswered,omitzero"` // as of when Records.Wanted holds; zero: never
	Listed       time.Time `json:"listed,omitzero"`       // when the runtime was last listed; zero: never

	Pause *Pause `json:"pause,omitempty"` // of all removals; replaced, never modified

	Observation *Observation `json:"observation,omitempty"` // in mode observe; replaced, never modified

	Reclaim         // on the filesystem of the unpacked layers
	Content Reclaim `json:"content,omitzero"` // on the filesystem of the blobs, if that is another one
}

// Pause is a period without removals, because a caller asked for it.
type Pause struct {
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	By     string    `json:"by,omitempty"` // who asked, as they named themselves
	Reason string    `json:"reason,omitempty"`
}

// Reclaim is how far reclaim has come on one filesystem.
type Reclaim struct {
	Hold *image.Hold `json:"hold,omitempty"`

	// ReclaimingBytes and ReclaimingInodes report that a run has begun and not reached its low
	// threshold. The run continues, also after a restart.
	ReclaimingBytes  bool `json:"reclaimingBytes,omitempty"`
	ReclaimingInodes bool `json:"reclaimingInodes,omitempty"`

	// HighPercent and InodesHighPercent are the high thresholds by which the run began; 0: not known.
	HighPercent       int `json:"highPercent,omitempty"`
	InodesHighPercent int `json:"inodesHighPercent,omitempty"`
}

// EndIfRaised ends a run that began by a lower threshold than p has.
func (r *Reclaim) EndIfRaised(p image.Policy) {
	raised := func(began, high int) bool { return began > 0 && high > began }
	r.ReclaimingBytes = r.ReclaimingBytes && !raised(r.HighPercent, p.HighPercent)
	r.ReclaimingInodes = r.ReclaimingInodes && !raised(r.InodesHighPercent, p.InodesHighPercent)
}

// Records is the whole state.
type Records struct {
	Meta   Meta
	Images map[string]Image // by image ID

	Removed map[string]Removed // by image ID; bounded in age and number
	Layers  map[inventory.Layer]Layer

	Observed map[string]Observed // by image ID, in mode observe

	Containers map[string]Container // by namespace/ID

	// Wanted is the latest answer of the source of pods: which pods want an image, by its name. It
	// is replaced with each answer, and never modified.
	Wanted map[string][]string

	// Facts are what the runtime has learnt; nil: those in the file still hold. They are replaced,
	// and never modified.
	Facts *inventory.Facts
}

// New returns empty records.
func New() Records {
	return Records{
		Images: make(map[string]Image), Removed: make(map[string]Removed),
		Layers: make(map[inventory.Layer]Layer), Containers: make(map[string]Container), Observed: make(map[string]Observed),
	}
}

// Shift moves the recorded times by d. It is called at the first start after a reboot, with the
// time that has passed by the wall clock since the last write. So ages continue where they were,
// whether the node was off for a week or its clock is wrong by a week. For the same reason a pause
// lasts as long as was left of it. The ends of containers do not move.
func (r *Records) Shift(d time.Duration) {
	move := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return t.Add(d)
	}
	for id, i := range r.Images {
		i.Observed, i.Arrived, i.LastUsed = move(i.Observed), move(i.Arrived), move(i.LastUsed)
		r.Images[id] = i
	}
	for id, was := range r.Removed {
		was.At, was.LastUsed = move(was.At), move(was.LastUsed)
		r.Removed[id] = was
	}
	for id, o := range r.Observed {
		o.Would, o.Back, o.Others = move(o.Would), move(o.Back), move(o.Others)
		r.Observed[id] = o
	}
	if o := r.Meta.Observation; o != nil {
		o.Since = move(o.Since)
		for n, t := range o.Removals {
			o.Removals[n] = move(t)
		}
		for _, run := range o.Runs {
			if run.Hold != nil {
				run.Hold.Since = move(run.Hold.Since)
			}
		}
	}
	for n, t := range r.Meta.Removals {
		r.Meta.Removals[n] = move(t)
	}
	for _, h := range []*image.Hold{r.Meta.Hold, r.Meta.Content.Hold} {
		if h != nil {
			h.Since = move(h.Since)
		}
	}
	if p := r.Meta.Pause; p != nil {
		moved := *p
		moved.Since, moved.Until = move(p.Since), move(p.Until)
		r.Meta.Pause = &moved
	}
	r.Meta.Saved = move(r.Meta.Saved)
	r.Meta.PodsAnswered, r.Meta.Listed = move(r.Meta.PodsAnswered), move(r.Meta.Listed)
}

// Clone returns a deep copy, to be written while the owner continues. It shares only values that
// are never modified.
func (r *Records) Clone() Records {
	c := *r
	c.Meta.Removals = slices.Clone(r.Meta.Removals)
	c.Meta.Reclaim, c.Meta.Content = r.Meta.Reclaim.Clone(), r.Meta.Content.Clone()
	c.Images, c.Removed = maps.Clone(r.Images), maps.Clone(r.Removed)
	c.Layers, c.Containers, c.Observed = maps.Clone(r.Layers), maps.Clone(r.Containers), maps.Clone(r.Observed)
	if o := r.Meta.Observation; o != nil {
		copied := o.Clone()
		c.Meta.Observation = &copied
	}
	return c
}

// Clone returns a deep copy.
func (o Observation) Clone() Observation {
	o.Removals, o.Runs = slices.Clone(o.Removals), maps.Clone(o.Runs)
	for path, run := range o.Runs {
		o.Runs[path] = run.Clone()
	}
	return o
}

// Clone returns a deep copy.
func (r Reclaim) Clone() Reclaim {
	if r.Hold != nil {
		hold := *r.Hold
		hold.Space = append([]image.Space(nil), r.Hold.Space...)
		r.Hold = &hold
	}
	return r
}
