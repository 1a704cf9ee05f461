package shadow

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/removal"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// againWithin is how soon after its removal an image must be needed again for the removal to have been
// in vain.
const againWithin = 24 * time.Hour

// showsWithin is how long a disk may take to show what others removed. If the shadow already lacked
// such an image, the image counts neither as present nor as free space in that time, and nothing is
// decided.
const showsWithin = 35 * time.Second

// beforeMost bounds the images of a list that is kept until the next one. A longer list is not kept.
const beforeMost = 2000

// Options configures a Shadow. All fields are required.
type Options struct {
	Config    config.Images
	LookEvery time.Duration    // longest time between two looks at images
	Now       func() time.Time // ebb's clock
	LookAgain func(at time.Time)
	Entry     func(image.Decision) page.HistoryEntry // the history entry of an image that would be removed
	History   *history.History
	Log       *slog.Logger
}

// Shadow is the node as it would be in mode enforce. It is used under one lock.
type Shadow struct {
	o       *Options
	metrics *metrics
	images  map[string]state.Observed // by ID: images that are gone or would be, or came back recently
	sum     state.Observation
	before  *inventory.Inventory // the latest list; nil: none yet, or longer than beforeMost
	shows   time.Time            // by then the disk shows what others removed last
	looked  time.Time            // when Above was called last; zero: never
	above   [2]bool              // above its high threshold then: the disk as it was, and as it would be
}

// New registers the metrics.
func New(r *prometheus.Registry, o Options) *Shadow {
	return &Shadow{o: &o, metrics: newMetrics(r)}
}

// Restore takes over the records of an earlier agent. It is called before anything else.
func (s *Shadow) Restore(r state.Records) {
	s.images, s.sum = make(map[string]state.Observed, len(r.Observed)), state.Observation{Since: s.o.Now()}
	maps.Copy(s.images, r.Observed)
	if o := r.Meta.Observation; o != nil {
		s.sum = o.Clone()
	}
	if s.sum.Runs == nil {
		s.sum.Runs = make(map[string]state.Reclaim)
	}
}

// Save adds a copy of the records to those that are to be written.
func (s *Shadow) Save(r *state.Records) {
	sum := s.sum.Clone()
	r.Observed, r.Meta.Observation = maps.Clone(s.images), &sum
}

// Observation returns what was counted so far.
func (s *Shadow) Observation() state.Observation { return s.sum }

// Would is what an agent in mode enforce would do now.
type Would struct {
	Removed int
	Rule    image.Reason // of the first image
	Freed   image.Size
	Disk    image.Disk // as it would be after that
	Hold    *image.Hold
	Next    time.Time // when the plan changes with time; zero: it does not
}

// Decide returns what would be removed from a node as it is, and treats it as removed from then on.
// path is the path of the filesystem.
func (s *Shadow) Decide(path string, is image.Snapshot) (w Would) {
	now := s.o.Now()
	s.NeededAgain(is.Images)
	run := s.sum.Runs[path]
	run.EndIfRaised(is.Policy)
	would := image.Without(s.arrivedAgain(is), s.gone)
	if now.Before(s.shows) {
		s.o.LookAgain(s.shows)
		return Would{Disk: would.Disk, Hold: run.Hold}
	}
	would.Hold, would.ReclaimingBytes, would.ReclaimingInodes = run.Hold, run.ReclaimingBytes, run.ReclaimingInodes
	plan := image.Decide(would, now)
	arrived := make(map[string]time.Time, len(would.Images))
	for _, i := range would.Images {
		arrived[i.ID] = i.Arrived
	}
	counts := func(d image.Decision) bool {
		return removal.Counts(s.o.Config.MaxRemovalsPerHour, d.Reason, arrived[d.ImageID], now)
	}
	goes := s.capped(plan, len(would.Images), counts, now)
	cut := len(goes) < len(plan.Remove)
	s.sum.Runs[path] = state.Reclaim{
		Hold: plan.Hold, ReclaimingBytes: cut && plan.NeedBytes > 0, ReclaimingInodes: cut && plan.NeedInodes > 0,
		HighPercent: is.Policy.HighPercent, InodesHighPercent: is.Policy.InodesHighPercent,
	}
	w = Would{Removed: len(goes), Disk: would.Disk, Hold: plan.Hold, Next: plan.Next}
	for _, d := range goes {
		s.remove(d, counts(d), now)
		w.Freed = w.Freed.Add(image.Size{Bytes: d.FreesBytes, Inodes: d.FreesInodes})
		w.Rule = goes[0].Reason
	}
	w.Disk.AvailableBytes += min(w.Freed.Bytes, w.Disk.CapacityBytes-w.Disk.AvailableBytes)
	w.Disk.InodesAvailable += min(w.Freed.Inodes, w.Disk.Inodes-w.Disk.InodesAvailable)
	return w
}

// gone reports whether the shadow lacks an image.
func (s *Shadow) gone(id string) bool {
	o := s.images[id]
	return !o.Would.IsZero() && o.Back.IsZero()
}

// NeededAgain finds the images that would have been removed, and are needed again. [Shadow.Decide]
// does so first.
func (s *Shadow) NeededAgain(images []image.Image) {
	now := s.o.Now()
	for _, i := range images {
		if !s.gone(i.ID) {
			continue
		}
		o := s.images[i.ID]
		if len(i.UsedBy)+len(i.Wanted) == 0 && !i.LastUsed.After(o.Would) && !i.Arrived.After(o.Would) {
			continue
		}
		o.Back = now
		s.images[i.ID] = o
		if after := now.Sub(o.Would); after <= againWithin {
			s.ebb().again(i.NominalBytes)
			s.o.Log.Info("an image that would have been removed is needed again", "image", i.ID, "references", i.References,
				"reason", "observing", "after", after.Round(time.Second).String(), "pull_bytes", i.NominalBytes)
		}
	}
}

// arrivedAgain returns the snapshot in which the images that came back have new records, as if they had
// been pulled again.
func (s *Shadow) arrivedAgain(is image.Snapshot) image.Snapshot {
	is.Images = slices.Clone(is.Images)
	for n := range is.Images {
		i := &is.Images[n]
		if back := s.images[i.ID].Back; !back.IsZero() {
			i.Arrived, i.Observed = clock.Latest(i.Arrived, back), clock.Latest(i.Observed, back)
			if i.LastUsed.Before(back) {
				i.LastUsed = time.Time{}
			}
		}
	}
	return is
}

// capped returns what the hourly caps allow of a plan. count returns whether a removal uses up a cap.
func (s *Shadow) capped(p image.Plan, images int, count func(image.Decision) bool, now time.Time) []image.Decision {
	recent := removal.Within(s.sum.Removals, now)
	s.sum.Removals = recent
	free, at := removal.Budget(recent, removal.Hourly(s.o.Config.MaxRemovalsPerHour, images, recent), now)
	byAge, atForAge := removal.Budget(recent, removal.ByAge(images, recent, s.o.Config.AgeRemovalsPerHourPercent), now)
	if byAge = max(byAge, needed(p)); byAge < free {
		free, at = byAge, atForAge
	}
	goes := 0
	for left := free; goes < len(p.Remove) && left > 0; goes++ {
		if count(p.Remove[goes]) {
			left--
		}
	}
	if goes == len(p.Remove) {
		return p.Remove
	}
	if free > 0 { // there is room again when the oldest one leaves the window
		at = append(slices.Clone(recent), now)[0].Add(removal.CapWindow)
	}
	s.o.LookAgain(at)
	return p.Remove[:goes]
}

// needed returns how many of a plan's images the disk needs removed. The others have reached their
// maximum age.
func needed(p image.Plan) (images int) {
	var freed image.Size
	for images < len(p.Remove) && (freed.Bytes < p.NeedBytes || freed.Inodes < p.NeedInodes) {
		freed = freed.Add(image.Size{Bytes: p.Remove[images].FreesBytes, Inodes: p.Remove[images].FreesInodes})
		images++
	}
	return images
}

// remove treats an image as removed. counts reports whether that uses up a cap.
func (s *Shadow) remove(d image.Decision, counts bool, now time.Time) {
	s.images[d.ImageID] = state.Observed{Would: now}
	if counts {
		s.sum.Removals = append(s.sum.Removals, now)
	}
	s.ebb().removed(image.Size{Bytes: d.FreesBytes, Inodes: d.FreesInodes})
	e := s.o.Entry(d)
	e.Outcome = page.OutcomeWould
	s.o.History.Noted(e)
	s.o.Log.Info("image would be removed", "image", d.ImageID, "references", e.Names,
		"reason", string(d.Reason), "detail", d.Detail, "computed_bytes", d.FreesBytes)
}

// Listed takes over what the runtime lists. gone are the IDs of images that are no longer there: others
// removed them, because an agent in mode observe removes none.
func (s *Shadow) Listed(inv *inventory.Inventory, gone []string) {
	now := s.o.Now()
	s.pulledAgain(inv, now)
	if len(gone) > 0 {
		s.went(gone, now)
	}
	if s.before = inv; len(inv.Images) > beforeMost {
		s.before = nil
	}
	listed := make(map[string]bool, len(inv.Images))
	for _, i := range inv.Images {
		listed[i.ID] = true
	}
	maps.DeleteFunc(s.images, func(id string, o state.Observed) bool {
		last := clock.Latest(clock.Latest(o.Would, o.Back), o.Others)
		return !(listed[id] && s.gone(id)) && now.Sub(last) > max(againWithin, time.Duration(s.o.Config.MinimumAge), time.Duration(s.o.Config.MaximumAge))
	})
}

// pulledAgain counts the images that others removed, and that are there again.
func (s *Shadow) pulledAgain(inv *inventory.Inventory, now time.Time) {
	for _, i := range inv.Images {
		o := s.images[i.ID]
		if o.Others.IsZero() {
			continue
		}
		if now.Sub(o.Others) <= againWithin {
			s.others().again(i.NominalBytes)
		}
		o.Others = time.Time{}
		s.images[i.ID] = o
	}
}

// went counts the images that others removed.
func (s *Shadow) went(gone []string, now time.Time) {
	slices.Sort(gone)
	frees, names := make([]image.Size, len(gone)), make(map[string][]string)
	if s.before != nil {
		images := make([]image.Image, 0, len(s.before.Images))
		for _, i := range s.before.Images {
			images = append(images, image.Image{ID: i.ID, Roots: i.Roots})
			names[i.ID] = i.References
		}
		frees = image.Frees(s.before.Graph, images, gone)
	}
	for n, id := range gone {
		if s.gone(id) {
			s.shows = now.Add(showsWithin)
		}
		o := s.images[id]
		o.Others = now
		s.images[id] = o
		s.others().removed(frees[n])
		s.o.Log.Info("image was removed, but not by ebb", "image", id, "references", names[id], "reason", "observing", "computed_bytes", frees[n].Bytes)
		s.o.History.Noted(page.HistoryEntry{
			Kind: page.KindImage, Outcome: page.OutcomeOthers, ID: id, Names: names[id], Reason: "others", Detail: "the kubelet or a person removed it",
			ComputedBytes: frees[n].Bytes, ComputedInodes: frees[n].Inodes,
		})
	}
}

// Above records whether a disk with images is above its high threshold, as it is and as it would be.
func (s *Shadow) Above(is, would bool) {
	now := s.o.Now()
	passed := min(max(0, now.Sub(s.looked)), 2*s.o.LookEvery) // more: the node could not be read
	for n, c := range []column{s.others(), s.ebb()} {
		if s.above[n] {
			c.above(passed)
		}
	}
	s.looked, s.above = now, [2]bool{is, would}
}
