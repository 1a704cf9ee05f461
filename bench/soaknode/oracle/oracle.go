// Package oracle judges what an agent did on a node by what really happened there. The driver
// reports what it did to images, the agent's log shows what was removed, and a sampler reports how
// full the disk was. The oracle reads no clock and no disk, and shares no code with the agent.
//
// No agent can close the gap between the last look at an image and its removal, so a reason to stay
// counts once it is older than Settled. A planned outage excuses lateness and log lines until it is
// over. Nothing excuses a wrong removal.
package oracle

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config has the limits that an agent is held to.
type Config struct {
	High, Low      float64       // the thresholds, in percent
	Settled        time.Duration // a reason to stay counts after this time
	MinimumAge     time.Duration // of an image that can be removed
	Late           time.Duration // most time over the high threshold while something could be removed
	LastUse        time.Duration // how far a last use may be from the truth
	Heard          time.Duration // the agent knows of a use after this time
	Noticed        time.Duration // the agent has looked at a new image after this time
	PodsGone       time.Duration // most time from the end of a pod until nothing is left of it
	Retry          time.Duration // the agent's first pause after a removal that failed, as in an outage
	LinesPerMinute int           // without real changes
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
	StaysTooLong = "left of a pod"
	TooManyLines = "too many log lines"
	Unbounded    = "unbounded"
)

func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.At.Format("15:04:05.000"), v.What, v.Text)
}

// Figures are the figures of a run so far.
type Figures struct {
	Removals, WrongRemovals, BeyondNeed int
	Late, LastUse, PodLeft              time.Duration // the longest; PodLeft of pods that no outage met
	PodsGone                            int           // ended, and nothing is left of them
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
	unseen   bool      // it also hides the use itself: the layers in the other namespace were new
	reported time.Time // the end of the use about which a wrong answer was reported
}

// pod is a pod that was started.
type pod struct {
	image string
	ended time.Time // zero: it runs
	dead  bool      // its container is gone
	late  bool      // reported: it stays too long
}

func (o *Oracle) madeFrom(name string) string {
	return "the container of pod " + name + " is made from it"
}

// justCopied reports whether the latest use came soon after the image had come to another
// namespace.
func (i *image) justCopied(within time.Duration) bool {
	return !i.begun.Before(i.copied) && i.begun.Sub(i.copied) < within
}

// Oracle can be used by several goroutines at once.
type Oracle struct {
	config Config

	mu         sync.Mutex
	images     map[string]*image
	pods       map[string]*pod
	notes      map[string][]string // recent events of each image, for readers of a violation
	over       time.Time           // since when the disk is over its high threshold; zero: it is not
	reported   bool                // this crossing was reported as late
	outages    int
	lastOutage time.Time // when the latest one ended
	lines      []time.Time
	figures    Figures
	violations []Violation
}

// New returns an oracle that knows no image.
func New(c Config) *Oracle {
	return &Oracle{config: c, images: make(map[string]*image), pods: make(map[string]*pod), notes: make(map[string][]string)}
}

func (o *Oracle) accuse(at time.Time, what, format string, args ...any) {
	o.violations = append(o.violations, Violation{at, what, fmt.Sprintf(format, args...)})
}

// accuseOf reports a violation because of an image, with the image's recent events.
func (o *Oracle) accuseOf(id string, at time.Time, what, format string, args ...any) {
	o.accuse(at, what, "%s; before: %s", fmt.Sprintf(format, args...), strings.Join(o.notes[id], ", "))
}

// mostNotes limits the notes of an image.
const mostNotes = 16

func (o *Oracle) note(id string, at time.Time, format string, args ...any) {
	list := append(o.notes[id], at.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	o.notes[id] = list[max(0, len(list)-mostNotes):]
}

// Came records that an image was pulled between these times. The pull of an image that is there is a
// use. Its removal frees at least frees percent of the disk, whatever else stays.
func (o *Oracle) Came(id string, frees float64, begun, ended time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(id, ended, "came")
	i := o.images[id]
	if i == nil || i.gone {
		i = &image{reasons: make(map[string]time.Time)}
		o.images[id] = i
	} else {
		o.used(i, begun, ended)
	}
	i.came, i.frees = ended, frees
}

// Copied records that an image has come to another namespace as well, where it has other layers.
func (o *Oracle) Copied(id string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(id, at, "copied")
	if i := o.images[id]; i != nil {
		i.copied = at
	}
}

// Dropped records that the runtime, not the agent, removed an image.
func (o *Oracle) Dropped(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.images, id)
}

// Protect records a reason to stay, once it holds.
func (o *Oracle) Protect(id, reason string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.protect(id, reason, at)
}

func (o *Oracle) protect(id, reason string, at time.Time) {
	o.note(id, at, "%s", reason)
	if i := o.images[id]; i != nil {
		i.reasons[reason] = at
	}
}

// Release records that a reason is about to end.
func (o *Oracle) Release(id, reason string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.release(id, reason, at)
}

func (o *Oracle) release(id, reason string, at time.Time) {
	o.note(id, at, "no more: %s", reason)
	if i := o.images[id]; i != nil {
		delete(i.reasons, reason)
		i.released = at
	}
}

// PodStarted records that a pod has a container, which needs its image until it is removed.
func (o *Oracle) PodStarted(name, image string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pods[name] = &pod{image: image}
	o.protect(image, o.madeFrom(name), at)
}

// PodEnded records that a pod is deleted and that nothing of it runs.
func (o *Oracle) PodEnded(name string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pods[name].ended = at
}

// ContainerRemoved judges the removal of a pod's container.
func (o *Oracle) ContainerRemoved(name string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch p := o.pods[name]; {
	case p == nil:
	case p.ended.IsZero():
		o.figures.WrongRemovals++
		o.accuse(at, WrongRemoval, "the container of pod %s went", name)
	default:
		o.containerGone(name, p, at)
	}
}

func (o *Oracle) containerGone(name string, p *pod, at time.Time) {
	if !p.dead {
		p.dead = true
		o.release(p.image, o.madeFrom(name), at)
	}
}

// PodRuns judges what is there of a pod that has not ended. asked is the moment before the request.
func (o *Oracle) PodRuns(name string, whole bool, parts []string, asked time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !whole {
		o.figures.WrongRemovals++
		o.accuse(asked, WrongRemoval, "pod %s has not ended, and only this is left of it: %s", name, strings.Join(parts, ", "))
	}
}

// PodLeft judges what is left of a pod that has ended.
func (o *Oracle) PodLeft(name string, container bool, parts []string, asked time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.pods[name]
	if !container {
		o.containerGone(name, p, asked)
	}
	if len(parts) == 0 {
		o.figures.PodsGone++
		delete(o.pods, name)
		return
	}
	if o.outages > 0 {
		return
	}
	late, most := asked.Sub(latest(p.ended, o.lastOutage)), o.config.PodsGone
	if hidden := o.lastOutage.Sub(p.ended); hidden > 0 {
		most += o.config.Retry + hidden // the pause between tries doubles
	} else {
		o.figures.PodLeft = max(o.figures.PodLeft, late)
	}
	if late > most && !p.late {
		p.late = true
		o.accuse(asked, StaysTooLong, "of %s, which ended at %s, there is %s", name, p.ended.Format("15:04:05.000"), strings.Join(parts, ", "))
	}
}

// Used records a use between these times. The zero time means that the times are unknown.
func (o *Oracle) Used(id string, begun, ended time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(id, ended, "used since %s", begun.Format("15:04:05.000"))
	if i := o.images[id]; i != nil {
		o.used(i, begun, ended)
	}
}

func (o *Oracle) used(i *image, begun, ended time.Time) {
	i.begun, i.ended, i.hidden = begun, ended, o.outages > 0 || begun.Before(o.lastOutage)
	i.unseen = i.hidden && i.justCopied(o.config.Noticed)
}

// Tried records a use that may not have happened.
func (o *Oracle) Tried(id string, ended time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(id, ended, "tried")
	if i := o.images[id]; i != nil && !i.ended.IsZero() {
		i.ended = ended
	}
}

// Rebooted records that the machine booted again. What was used before is then as old as it was
// when the machine went down, because the time for which the machine was off is unknown.
func (o *Oracle) Rebooted() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, i := range o.images {
		i.begun, i.ended = time.Time{}, time.Time{}
	}
}

// Removal is a removal as the agent's log reports it.
type Removal struct {
	Image               string
	Begun, At           time.Time
	Capacity, Available uint64 // of the disk, afterwards
	Freed               uint64
	Exact               bool // the figures are of this removal alone, and it was for bytes
}

// Removed judges a removal.
func (o *Oracle) Removed(r Removal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.figures.Removals++
	if i := o.images[r.Image]; i != nil {
		o.went(i, r.Image, r.Begun)
		if r.Begun.After(i.ended) {
			i.begun, i.ended = time.Time{}, time.Time{} // an image that has come again has not been used
		}
	}
	if !r.Exact || r.Capacity == 0 || r.Freed > r.Available {
		return
	}
	// Other processes delete at the same time. The agent reports that only from 1 MiB, or a
	// fiftieth, on.
	slack := max(1<<20, r.Freed/50)
	if before := 100 - 100*float64(r.Available-min(r.Available, r.Freed+slack))/float64(r.Capacity); before < o.config.Low {
		o.figures.BeyondNeed++
		o.accuseOf(r.Image, r.At, BeyondNeed, "%s went at %.2f %%, the low threshold is at %g %%", r.Image, before, o.config.Low)
	}
}

// went judges the removal of an image that was present and is gone at this time.
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

// Present compares all listed images with those that should be there. asked is the moment before
// the request. An image that was missing only while its names were withdrawn is back.
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

// CannotRun records that a listed image could not be run.
func (o *Oracle) CannotRun(id string, err error, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accuseOf(id, at, CannotRun, "%s: %v", id, err)
}

// Exceeds records that a figure grew beyond its limit.
func (o *Oracle) Exceeds(what string, is, most float64, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accuse(at, Unbounded, "%s: %g, at most %g are well", what, is, most)
}

// OutageBegins records the begin of a planned fault. The fault hides the end of uses just before
// it. It also hides uses of layers that are new, because the kernel knows a layer's image only
// after the agent has looked at it. The caller must call ended when the fault is over.
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

// Excused reports whether a planned fault lasts, or ended only just now.
func (o *Oracle) Excused(at time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.outages > 0 || at.Sub(o.lastOutage) < max(o.config.Settled, o.config.Heard)
}

// Disk records how full the disk is. Lateness counts from the latest of three moments: the
// crossing, the end of an outage, and the moment from which enough could be removed to reach the
// low threshold.
func (o *Oracle) Disk(percent float64, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if percent < o.config.High || o.outages > 0 {
		o.over, o.reported = time.Time{}, false
		return
	}
	if o.over.IsZero() {
		o.over = at
	}
	since, id, frees := o.couldGo(at)
	if percent-frees > o.config.Low { // images are not removed in vain
		o.over = at
		return
	}
	late := at.Sub(latest(since, o.over, o.lastOutage))
	o.figures.Late = max(o.figures.Late, late)
	if late > o.config.Late && !o.reported {
		o.reported = true
		o.accuse(at, TooLate, "%.1f %% for %v, and %s could go since %s", percent, late.Round(time.Millisecond), id, since.Format("15:04:05.000"))
	}
}

// couldGo returns the image that could be removed for the longest time, since when, and what all
// such images would free.
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

// LastUse compares the agent's answer about a last use with the truth. A zero answer means no
// last use. Each error is reported once. about has what else the agent answered about the image.
func (o *Oracle) LastUse(id string, answer, asked time.Time, about string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := o.images[id]
	// An image with a reason to stay is in use until now. Of a use that has just ended, the agent
	// may not know yet.
	if i == nil || i.gone || len(i.reasons) > 0 || i.ended.IsZero() || asked.Sub(latest(i.ended, o.lastOutage)) < o.config.Heard ||
		asked.Sub(i.came) < o.config.Noticed {
		return
	}
	end := i.ended
	if i.hidden { // a use with an unknown end counts as later, but no later than the agent finds it
		end = latest(end, o.lastOutage)
	}
	if answer.IsZero() && !i.came.Before(i.ended) {
		return // it was gone before this pull, as the oracle has not heard yet
	}
	var off time.Duration
	switch {
	case answer.IsZero():
		off = asked.Sub(i.ended)
	case answer.Before(i.begun):
		if i.unseen {
			return // the copy was used and removed before an agent that was ended had looked at it
		}
		off = i.begun.Sub(answer)
	case answer.After(end):
		off = answer.Sub(end)
	}
	o.figures.LastUse = max(o.figures.LastUse, off)
	if off > o.config.LastUse && !i.reported.Equal(i.ended) {
		i.reported = i.ended
		o.accuseOf(id, asked, WrongLastUse, "of %s (%s): %s, the truth is %s to %s", id, about, answer.Format("15:04:05.000"),
			i.begun.Format("15:04:05.000"), i.ended.Format("15:04:05.000"))
	}
}

// Line counts a log line that reports no real change.
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

// Figures returns the figures so far.
func (o *Oracle) Figures() Figures {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.figures
}

// Violations returns the violations so far.
func (o *Oracle) Violations() []Violation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.violations)
}
