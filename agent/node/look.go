package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/lastuse"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/reclaim"
	"github.com/ebb-agent/ebb/agent/node/stats"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// maxPasses bounds the passes of one look. Each pass makes a new plan from a fresh reading, so two
	// are usual: one that removes images, and one that finds nothing left to do.
	maxPasses = 8

	// retryFirst and retryMost bound the wait after a failed look.
	retryFirst = time.Second
	retryMost  = time.Minute

	// planHolds is how long a plan that found images not enough counts, whatever happens meanwhile: until the look
	// for dead containers that follows.
	planHolds = time.Second
)

// unreadable is the condition that the latest look failed.
const unreadable = "look"

// looks is the worker for images. A look reads disk, runtime and kernel, and removes images if the
// policy asks for it. Requests that arrive during a look wait for its end.
type looks struct {
	*parts
	worker
	hear func() // handles the events that the runtime has sent already

	wanted  request
	errand  *errand // a run that a client asks for; nil: none
	shown   shown
	looking bool            // a look or an errand is under way
	moved   bool            // mounts changed while looking
	roots   inventory.Roots // the runtime's directories; zero: to be asked for
	listed
	last      time.Time             // when the latest look ended
	forEvents [eventBurst]time.Time // when events caused the latest looks, oldest first
	retryWait time.Duration
}

// listed is what the runtime listed last.
type listed struct {
	latest      *inventory.Inventory // nil: to be read again
	snapshots   map[inventory.Layer]inventory.Snapshot
	broken      map[string]string // snapshotters that cannot be read, and why
	unwatched   map[string]string // snapshotters whose layers count as 0 bytes, and why
	eventsSince bool              // the runtime has sent an event since
}

// shown is what pages show.
type shown struct {
	inv   *inventory.Inventory // nil before the first plan, and from a list until its plan
	asked time.Time            // when that list was requested
	news  chan struct{}        // closed and replaced at each new list
}

func (s *shown) take(inv *inventory.Inventory) {
	s.inv = inv
	close(s.news)
	s.news = make(chan struct{})
}

// request is why the next look is wanted.
type request struct {
	list   bool   // for a reason other than a reading of the disk
	since  uint64 // CLOCK_BOOTTIME in ns of the first crossing, or of the reading that showed it; 0: none
	during bool   // that crossing came during a look

	reconcile bool // the next one is long after it
}

// request asks for a look at the images. since is the CLOCK_BOOTTIME in ns of the crossing that caused
// it, 0 for other causes.
func (l *looks) request(since uint64) {
	r := &l.wanted
	if since == 0 {
		r.list = true
	} else if r.since == 0 || since < r.since {
		r.since, r.during = since, l.looking
	}
	l.want()
}

// demanded carries out what a reading of the filesystems asks for.
func (l *looks) demanded(d watermark.Demand) {
	if d.Workloads {
		l.workloads.Soon(0)
	}
	switch {
	case d.Err != nil:
		l.failed(d.Err)
	case d.Images:
		l.request(d.Since)
	}
}

// work carries out the look and the errand that were asked for. Without a runtime it does nothing.
func (l *looks) work(ctx context.Context) {
	if l.rt == nil {
		return // not connected yet
	}
	if l.moved {
		if l.moved = false; l.survey() {
			l.request(0)
		}
	}
	r := l.wanted
	l.wanted = request{}
	if r == (request{}) && l.errand == nil {
		return // the look before has answered the request
	}
	l.looking = true
	if r.list || r.since != 0 && (!r.during || l.stillHigh(ctx)) {
		l.look(ctx, r.since, !r.list)
	}
	l.carryOut(ctx)
	l.looking = false
	if r.reconcile {
		l.health.outside(l.rested)
	}
	if slices.ContainsFunc(l.watermark.Filesystems(), func(f *watermark.Filesystem) bool { return l.reclaim.Hold(f) != nil }) {
		l.workloads.Soon(0) // what ended pods left behind may have to go
	}
}

// settled reports whether the latest plan can be relied on: the look worked, nothing is being removed, and no news waits for
// another look. Where there is news all the time, the plan holds for planHolds.
func (l *looks) settled() bool {
	news := l.eventsSince || l.wanted != (request{}) || !l.alarms.at[alarmEvents].IsZero() || l.conditions.Holds(eventsBroken)
	return l.calm() && (!news || l.now().Sub(l.last) < planHolds)
}

// calm reports whether the latest look worked, and nothing is being removed.
func (l *looks) calm() bool {
	return !l.last.IsZero() && !l.conditions.Holds(unreadable) && !l.reclaim.Running()
}

// stillHigh reports whether a crossing that came during a look still needs one. If that look has
// answered it, stillHigh returns false, and the runtime is not listed again.
func (l *looks) stillHigh(ctx context.Context) bool {
	if l.reclaim.StillHigh(ctx) {
		return true
	}
	l.demanded(l.watermark.Looked(ctx))
	found, _ := l.reclaim.Target()
	return found == nil
}

// look reads the node, decides, acts, and sets the next alarms. crossedNS is the CLOCK_BOOTTIME of the
// crossing that asks for it, in ns; 0 if there is none. hurry is true if nothing else asks for it.
func (l *looks) look(ctx context.Context, crossedNS uint64, hurry bool) {
	run := l.reclaim.Begin(crossedNS, hurry)
	err := l.passes(ctx, run, func(inv *inventory.Inventory, atHand bool) (bool, error) { return run.Plan(inv, atHand), nil })
	next, ended := run.End(err) // what is gone is reported, also if the node cannot be read any more
	if err = cmp.Or(err, ended); err != nil {
		if ctx.Err() == nil {
			l.failed(err)
		}
		return
	}
	now := l.now()
	l.done(now)
	l.alarms.set(alarmPlan, planAlarm(next, now))
	if at := l.pods.AskAgain(l.reclaim.PodsMissed()); !at.IsZero() {
		l.alarms.sooner(alarmRetry, at)
	}
	inUse, last := l.lastUse.Uses()
	l.unused.Looked(l.now, inUse, last)
	l.saver.Save()
	l.lastUse.Layers().Resolve()
	l.demanded(l.watermark.Looked(ctx))
	if len(l.broken) > 0 && l.reclaim.Above() {
		l.alarms.sooner(alarmRetry, now.Add(retryMost)) // its images may be those that have to go
	}
	for _, f := range l.watermark.Filesystems() {
		if at := f.BelievedUntil(); at.After(now) {
			l.alarms.sooner(alarmRetry, at)
		}
	}
}

// passes reads, plans and removes again and again, until nothing is left to remove or the run ends.
func (l *looks) passes(ctx context.Context, run *reclaim.Run, plan func(inv *inventory.Inventory, atHand bool) (work bool, err error)) error {
	for range maxPasses {
		inv, atHand, err := l.observe(ctx, run.Hurries())
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
		work, err := plan(inv, atHand)
		if err != nil {
			return err
		}
		if inv != l.shown.inv {
			l.shown.take(inv) // not before: pages would show it beside the plan of the list before
		}
		if !work && atHand && len(inv.Broken) > 0 {
			continue // a snapshotter that can be read again sends no event
		}
		if !work {
			l.keepLatest(inv)
			return nil
		}
		if !run.Execute(ctx) {
			return nil
		}
	}
	return nil
}

// planAlarm returns when the plan changes with time; the zero time if it does not. The alarm is at
// least a second away, so that no error in the arithmetic can make the loop spin.
func planAlarm(next, now time.Time) time.Time {
	if next.IsZero() {
		return time.Time{}
	}
	return clock.Latest(next, now.Add(time.Second))
}

// failed records that a whole look failed, and plans the next try.
func (l *looks) failed(err error) {
	l.metrics.lookFailures.Inc()
	l.health.setReady(err.Error())
	l.conditions.Begin(unreadable, slog.LevelWarn, "cannot read the node; trying again", "error", err, "next", l.retryWait.String())
	l.alarms.sooner(alarmRetry, l.now().Add(l.retryWait))
	l.retryWait = min(2*l.retryWait, retryMost)
}

func (l *looks) done(now time.Time) {
	if l.last.IsZero() {
		l.alarms.set(alarmRest, now.Add(restPause))
	}
	if l.retryWait, l.last = retryFirst, now; l.reclaim.Unmended() {
		l.alarms.sooner(alarmRetry, now.Add(retryMost))
	}
	if !l.conditions.Holds(eventsBroken) {
		l.health.setReady("")
	}
	l.metrics.lastSuccess.Set(float64(l.clock.Wall().Unix()))
	l.conditions.End(unreadable, "the node can be read again")
}

// observe reads disk, runtime and kernel, and brings the records up to date. If hurry is set, it uses
// the inventory at hand instead of a new list, unless the runtime has sent an event since: to list
// thousands of images takes seconds. That is safe, because an image that has changed is not withdrawn.
func (l *looks) observe(ctx context.Context, hurry bool) (inv *inventory.Inventory, atHand bool, err error) {
	l.kernel.catchUp()
	if l.reclaim.Mend(ctx) > 0 {
		l.eventsSince = true
	}
	if err := l.findPlaces(ctx); err != nil {
		return nil, false, err
	}
	// Without an answer the latest one counts: what pods wanted then, they still want.
	_, _ = l.pods.Read(ctx)
	l.hear()
	l.alarms.set(alarmEvents, time.Time{}) // this look answers it
	inv = l.latest
	if l.latest = nil; inv != nil && hurry && !l.eventsSince && l.lastUse.HearsEvents() {
		atHand = true
		l.lastUse.Harvest()
		return inv, atHand, l.reclaim.Read(ctx)
	}
	l.wanted.list = false // this list answers it
	l.shown.inv = nil     // never keep two in memory
	if inv, err = l.list(ctx); err != nil {
		return nil, false, err
	}
	return inv, atHand, l.reclaim.Read(ctx)
}

// findPlaces finds the runtime's directories and their filesystems. It is an error if the filesystem of
// the images is not found: then there is nothing to decide.
func (l *looks) findPlaces(ctx context.Context) error {
	if l.roots.Images == "" {
		var roots inventory.Roots
		var err error
		if l.health.outside(func() { roots, err = l.rt.Roots(ctx) }); err != nil {
			return fmt.Errorf("find the image filesystem: %w", err)
		}
		l.roots = roots
		l.watermark.Place(roots)
	}
	l.survey()
	_, err := l.watermark.Named(watermark.Images)
	return err
}

// survey follows the filesystems that moved. It returns false if none did.
func (l *looks) survey() (moved bool) {
	if moved = l.watermark.Survey(); moved {
		l.roots = inventory.Roots{} // the next look asks which of them share a filesystem
		l.reclaim.Find()
	}
	return moved
}

// mountsChanged asks for a survey. Most changes, such as a container's root, do not concern a watched
// filesystem.
func (l *looks) mountsChanged() {
	l.metrics.mounts.Inc()
	l.moved = true
	l.want()
}

// list reads the runtime, and brings the records in line with its answer.
func (l *looks) list(ctx context.Context) (*inventory.Inventory, error) {
	l.eventsSince = false
	asked, inv, err := l.inventory(ctx)
	l.shown.asked = asked
	if err != nil {
		l.roots = inventory.Roots{} // the runtime may have others when it is back
		return nil, fmt.Errorf("read the runtime's images: %w", err)
	}
	l.broken = l.noteSnapshotters(l.broken, inv.Broken, l.metrics.broken, "cannot be read", "cannot read a snapshotter: the images that are unpacked in it stay", "the snapshotter can be read again")
	l.unwatched = l.noteSnapshotters(l.unwatched, inv.Unwatched, l.metrics.unwatched, "is on another disk", "a snapshotter's layers are on a disk that ebb does not watch: they count as 0 bytes", "the snapshotter's layers are on the images' disk again, or gone")
	if missing := missingFrom(inv); !l.reclaim.Unmended() && !l.lastUse.AnyAway(missing) {
		l.reclaim.Happened(l.history.Listed(func(id string) bool { return !missing(id) }, page.KindImage))
	}
	l.reclaim.Listed(inv, l.lastUse.Listed(inv, asked, l.reclaim.Unmended()))
	mounts := make([]stats.Mount, len(l.watermark.Filesystems()))
	for n, f := range l.watermark.Filesystems() {
		mounts[n] = stats.Mount{Dev: f.Dev, Type: f.Type}
	}
	l.writers.Review(inv.Containers, mounts, func(bootNS uint64) bool { return l.clock.AtBoot(bootNS).Before(asked) })
	l.snapshots = inv.Snapshots
	l.indexHeat()
	return inv, nil
}

// noteSnapshotters begins and ends the conditions of snapshotters that have the same problem, and returns
// those that have it now, each with the reason.
func (l *looks) noteSnapshotters(before, now map[string]string, count prometheus.Gauge, problem, begin, end string) map[string]string {
	condition := func(name string) string { return "snapshotter " + name + " " + problem }
	for name := range before {
		if _, still := now[name]; !still {
			l.conditions.End(condition(name), end)
		}
	}
	for name, why := range now {
		l.conditions.Begin(condition(name), slog.LevelWarn, begin, "snapshotter", name, "error", why)
	}
	count.Set(float64(len(now)))
	return now
}

// inventory reads the runtime. It reads again while images are missing whose names were restored a
// moment ago.
func (l *looks) inventory(ctx context.Context) (asked time.Time, inv *inventory.Inventory, err error) {
	for {
		asked = l.now()
		if l.health.outside(func() { inv, err = l.rt.Inventory(ctx) }); err != nil {
			return asked, nil, err
		}
		if !l.lastUse.Late(missingFrom(inv)) || !l.sleep(ctx, lastuse.ListedTick) {
			return asked, inv, nil
		}
	}
}

// keepLatest keeps an inventory for the next look that hurries. It does not while the runtime still has
// to list a withdrawn image again, because no event reports when the runtime does.
func (l *looks) keepLatest(inv *inventory.Inventory) {
	if !l.lastUse.AnyAway(missingFrom(inv)) {
		l.latest = inv
	}
}

func missingFrom(inv *inventory.Inventory) func(id string) bool {
	return func(id string) bool {
		return !slices.ContainsFunc(inv.Images, func(i inventory.Image) bool { return i.ID == id })
	}
}

// hearEvents handles the events that the runtime has already sent. It reports whether there was any
// since the latest inventory, which is then out of date.
func (l *looks) hearEvents() (eventsSince bool) {
	l.hear()
	return l.eventsSince
}

// wantedChanged is called when pods want other images: they are saved, and on a disk over its threshold
// another image may go now.
func (l *looks) wantedChanged() {
	now := l.now()
	l.saver.Later(now.Add(wantedPause)) // a look may save it sooner
	if l.reclaim.Above() {
		l.alarms.sooner(alarmEvents, clock.Latest(now.Add(eventPause), l.afterBurst()))
	}
}

// afterBurst is the earliest time of the next look for events on a disk over its threshold.
func (l *looks) afterBurst() time.Time { return l.forEvents[0].Add(eventBurst * eventSpacing) }

// podsKnown asks for a look if images stayed only because the pods were not known.
func (l *looks) podsKnown() {
	if l.reclaim.PodsMissed() {
		l.watermark.HoldsMayEnd()
		l.alarms.sooner(alarmEvents, l.now().Add(eventPause))
	}
}

// indexHeat gives the heat statistics the layers of all images, with their directories where these are
// known.
func (l *looks) indexHeat() { l.heat.Index(l.lastUse.Known(), l.lastUse.Layers().Root, l.snapshots) }
