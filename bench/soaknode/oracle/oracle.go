// Package oracle judges what an agent did on a node, from what really happened there:
// the driver tells what it did to images, the agent's log what went, a sampler how full
// the disk was. It reads no clock and no disk, and shares no code with the agent.
//
// Nobody can close the moment between the last look at an image and its removal, so a
// reason to stay counts once it is older than Settled. A planned outage excuses lateness
// and log lines until it is over; nothing excuses a wrong removal.
package oracle

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config is what an agent is held to.
type Config struct {
	High, Low      float64       // the thresholds, in percent
	Settled        time.Duration // after it a reason to stay counts
	MinimumAge     time.Duration // of an image that may go
	Late           time.Duration // over the high threshold, at most, while something could go
	LastUse        time.Duration // how far a last use may be from the truth
	Heard          time.Duration // after it a use has been heard of
	Noticed        time.Duration // after it an image that has come is looked at
	LinesPerMinute int           // beside real changes
}

// Violation is what an agent did wrong.
type Violation struct {
	At         time.Time
	What, Text string
}

// The sorts of violation.
const (
	WrongRemoval = "wrong removal"
	CannotRun    = "listed, but cannot be run"
	TooLate      = "over the high threshold"
	BeyondNeed   = "beyond need"
	WrongLastUse = "wrong last use"
	TooManyLines = "too many log lines"
	Unbounded    = "unbounded"
)

func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.At.Format("15:04:05.000"), v.What, v.Text)
}

// Figures is what was seen.
type Figures struct {
	Removals, WrongRemovals, BeyondNeed int
	Late, LastUse                       time.Duration // the most
	Lines                               int           // the most in a minute
}

type image struct {
	came     time.Time
	copied   time.Time // to another namespace
	gone     bool
	left     time.Time // since when it is gone
	frees    float64   // at least, of the disk, in percent
	reasons  map[string]time.Time
	released time.Time // when the latest reason ended
	begun    time.Time // of the latest use
	ended    time.Time
	hidden   bool      // an outage hides when it ended
	unseen   bool      // and that it was at all: the layers of another namespace had only just come
	told     time.Time // the end of the use of which a wrong answer was told
}

// justCopied is whether the latest use came soon after the image had come to another namespace.
func (i *image) justCopied(within time.Duration) bool {
	return !i.begun.Before(i.copied) && i.begun.Sub(i.copied) < within
}

// Oracle may be told by several goroutines.
type Oracle struct {
	config Config

	mu         sync.Mutex
	images     map[string]*image
	notes      map[string][]string // what was told of each image lately, for who reads a violation
	over       time.Time           // since when the disk is over its high threshold; zero: it is not
	told       bool                // that this crossing is late
	outages    int
	lastOutage time.Time // when the latest one ended
	lines      []time.Time
	figures    Figures
	violations []Violation
}

// New returns one that knows no image.
func New(c Config) *Oracle {
	return &Oracle{config: c, images: make(map[string]*image), notes: make(map[string][]string)}
}

func (o *Oracle) accuse(at time.Time, what, format string, args ...any) {
	o.violations = append(o.violations, Violation{at, what, fmt.Sprintf(format, args...)})
}

// accuseOf does so because of an image, with what was told of it.
func (o *Oracle) accuseOf(id string, at time.Time, what, format string, args ...any) {
	o.accuse(at, what, "%s; told: %s", fmt.Sprintf(format, args...), strings.Join(o.notes[id], ", "))
}

// mostNotes bounds what is kept of an image.
const mostNotes = 16

func (o *Oracle) note(id string, at time.Time, format string, args ...any) {
	list := append(o.notes[id], at.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	o.notes[id] = list[max(0, len(list)-mostNotes):]
}

// Came tells that an image is there: pulled, or pulled again. Its removal frees at least so
// many percent of the disk, whatever else stays.
func (o *Oracle) Came(id string, frees float64, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(id, at, "came")
	i := o.images[id]
	if i == nil || i.gone {
		i = &image{reasons: make(map[string]time.Time)}
		o.images[id] = i
	}
	i.came, i.frees = at, frees
}

// Copied tells that an image has come to another namespace as well, where its layers are others.
func (o *Oracle) Copied(id string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(id, at, "copied")
	if i := o.images[id]; i != nil {
		i.copied = at
	}
}

// Dropped tells that somebody other than the agent took an image away.
func (o *Oracle) Dropped(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.images, id)
}

// Protect tells of a reason to stay, once it holds.
func (o *Oracle) Protect(id, reason string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(id, at, "%s", reason)
	if i := o.images[id]; i != nil {
		i.reasons[reason] = at
	}
}

// Release tells that a reason is about to end.
func (o *Oracle) Release(id, reason string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(id, at, "no more: %s", reason)
	if i := o.images[id]; i != nil {
		delete(i.reasons, reason)
		i.released = at
	}
}

// Used tells of a use that began and ended in between; the zero time: at times that nobody knows.
func (o *Oracle) Used(id string, begun, ended time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(id, ended, "used since %s", begun.Format("15:04:05.000"))
	if i := o.images[id]; i != nil {
		i.begun, i.ended, i.hidden = begun, ended, o.outages > 0 || begun.Before(o.lastOutage)
		i.unseen = i.hidden && i.justCopied(o.config.Noticed)
	}
}

// Tried tells of a use that may have come to nothing.
func (o *Oracle) Tried(id string, ended time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(id, ended, "tried")
	if i := o.images[id]; i != nil && !i.ended.IsZero() {
		i.ended = ended
	}
}

// Rebooted tells that the machine came up anew: what was used before then is as old as it was
// when the machine went down, and nobody knows for how long it was off.
func (o *Oracle) Rebooted() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, i := range o.images {
		i.begun, i.ended = time.Time{}, time.Time{}
	}
}

// Removal is what the agent's log says of one.
type Removal struct {
	Image               string
	Begun, At           time.Time
	Capacity, Available uint64 // of the disk, afterwards
	Freed               uint64
	Exact               bool // the figures are of this removal alone, and it was for bytes
}

// Removed judges one.
func (o *Oracle) Removed(r Removal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.figures.Removals++
	if i := o.images[r.Image]; i != nil {
		o.went(i, r.Image, r.Begun)
		if r.Begun.After(i.ended) {
			i.begun, i.ended = time.Time{}, time.Time{} // what has come again has not been used
		}
	}
	if !r.Exact || r.Capacity == 0 || r.Freed > r.Available {
		return
	}
	// Others delete meanwhile. The agent says so from a MiB, or a fiftieth, on.
	slack := max(1<<20, r.Freed/50)
	if before := 100 - 100*float64(r.Available-min(r.Available, r.Freed+slack))/float64(r.Capacity); before < o.config.Low {
		o.figures.BeyondNeed++
		o.accuseOf(r.Image, r.At, BeyondNeed, "%s went at %.2f %%, the low threshold is at %g %%", r.Image, before, o.config.Low)
	}
}

// went judges an image that was there before at.
func (o *Oracle) went(i *image, id string, at time.Time) {
	if i.gone || at.Before(i.came) {
		return // judged before, or it has come again since
	}
	i.gone, i.left = true, at
	o.note(id, at, "gone")
	for reason, since := range i.reasons {
		if at.Sub(since) > o.config.Settled {
			o.figures.WrongRemovals++
			o.accuseOf(id, at, WrongRemoval, "%s went although %s, since %s", id, reason, since.Format("15:04:05.000"))
			return
		}
	}
}

// Present compares all images that were listed with what should be there. Asked is the
// moment before the question. One that was missing only while its names were away is back.
func (o *Oracle) Present(ids []string, asked time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if i := o.images[id]; i != nil && i.gone && asked.After(i.left) {
			i.gone = false
			o.note(id, asked, "back")
		}
	}
	for id, i := range o.images {
		if !slices.Contains(ids, id) {
			o.went(i, id, asked)
		}
	}
}

// CannotRun tells that an image that is listed could not be run.
func (o *Oracle) CannotRun(id string, err error, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accuseOf(id, at, CannotRun, "%s: %v", id, err)
}

// Exceeds tells that something grew beyond what it is held to.
func (o *Oracle) Exceeds(what string, is, most float64, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accuse(at, Unbounded, "%s: %g, at most %g are well", what, is, most)
}

// OutageBegins tells of a planned fault, which hides when uses of just before it ended, and
// those of layers that have only just come: the kernel knows whose they are once they are
// looked at. What it returns tells of its end.
func (o *Oracle) OutageBegins(at time.Time) (ended func(at time.Time)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outages++
	for _, i := range o.images {
		i.hidden = i.hidden || at.Sub(i.ended) < o.config.Heard || at.Sub(latest(i.came, i.copied)) < o.config.Noticed
		i.unseen = i.unseen || at.Sub(i.copied) < o.config.Noticed && i.justCopied(o.config.Noticed)
	}
	return func(at time.Time) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.outages--
		o.lastOutage = latest(o.lastOutage, at)
	}
}

// Excused says whether a planned fault is on, or has ended only just now.
func (o *Oracle) Excused(at time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.outages > 0 || at.Sub(o.lastOutage) < max(o.config.Settled, o.config.Heard)
}

// Disk tells how full the disk is. Lateness counts from the last of: the crossing, the
// end of an outage, the moment from which enough could go to reach the low threshold.
func (o *Oracle) Disk(percent float64, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if percent < o.config.High || o.outages > 0 {
		o.over, o.told = time.Time{}, false
		return
	}
	if o.over.IsZero() {
		o.over = at
	}
	since, id, frees := o.couldGo(at)
	if percent-frees > o.config.Low { // and nothing is lost for nothing
		o.over = at
		return
	}
	late := at.Sub(latest(since, o.over, o.lastOutage))
	o.figures.Late = max(o.figures.Late, late)
	if late > o.config.Late && !o.told {
		o.told = true
		o.accuse(at, TooLate, "%.1f %% for %v, and %s could go since %s", percent, late.Round(time.Millisecond), id, since.Format("15:04:05.000"))
	}
}

// couldGo finds the image that could go for the longest time, and what all that could free.
func (o *Oracle) couldGo(at time.Time) (since time.Time, which string, frees float64) {
	for id, i := range o.images {
		if i.gone || len(i.reasons) > 0 {
			continue
		}
		free := latest(i.came.Add(o.config.MinimumAge), i.released, i.ended)
		if free.After(at) {
			continue
		}
		frees += i.frees
		if which == "" || free.Before(since) {
			since, which = free, id
		}
	}
	return since, which, frees
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// LastUse compares what the agent answered to a question; zero is no last use. One error
// is told once. About is what else the agent said of the image.
func (o *Oracle) LastUse(id string, said, asked time.Time, about string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := o.images[id]
	// What is in use is used until now. What has just ended is still to be heard of.
	if i == nil || i.gone || len(i.reasons) > 0 || i.ended.IsZero() || asked.Sub(latest(i.ended, o.lastOutage)) < o.config.Heard ||
		asked.Sub(i.came) < o.config.Noticed {
		return
	}
	end := i.ended
	if i.hidden { // what nobody can date counts as later, and no later than it is found
		end = latest(end, o.lastOutage)
	}
	if said.IsZero() && i.came.After(i.ended) {
		return // an agent that first saw it after it was pulled again counts its age from then
	}
	var off time.Duration
	switch {
	case said.IsZero():
		off = asked.Sub(i.ended)
	case said.Before(i.begun):
		if i.unseen {
			return // what was copied, was used and went before an agent that was ended had looked at it
		}
		off = i.begun.Sub(said)
	case said.After(end):
		off = said.Sub(end)
	}
	o.figures.LastUse = max(o.figures.LastUse, off)
	if off > o.config.LastUse && !i.told.Equal(i.ended) {
		i.told = i.ended
		o.accuseOf(id, asked, WrongLastUse, "of %s (%s): %s, the truth is %s to %s", id, about, said.Format("15:04:05.000"),
			i.begun.Format("15:04:05.000"), i.ended.Format("15:04:05.000"))
	}
}

// Line counts a line of the log that tells of no real change.
func (o *Oracle) Line(text string, at time.Time) {
	if o.Excused(at) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = slices.DeleteFunc(append(o.lines, at), func(t time.Time) bool { return at.Sub(t) >= time.Minute })
	o.figures.Lines = max(o.figures.Lines, len(o.lines))
	if len(o.lines) == o.config.LinesPerMinute+1 {
		o.accuse(at, TooManyLines, "%d in a minute, the last: %s", len(o.lines), text)
	}
}

// Figures returns what was seen until now.
func (o *Oracle) Figures() Figures {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.figures
}

// Violations returns what was wrong until now.
func (o *Oracle) Violations() []Violation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.violations)
}
