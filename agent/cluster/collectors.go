package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// collector decides about objects for other reasons than their owners: see policy/gc.
// Times are the API server's. The loop owns it.
type collector interface {
	Listing(now time.Time, t gc.Type)
	Observe(now time.Time, t gc.Type, o gc.Object, fields any)
	Forget(now time.Time, t gc.Type, o gc.Object)
	Synced(now time.Time, t gc.Type)
	Unreadable(now time.Time, t gc.Type)
	Restored(now time.Time)
	Ready(now time.Time, most int) []gc.Action
	Answered(now, asOf time.Time, id uint64, a gc.Answer)
	Patched(now time.Time, id uint64, o gc.Object)
	Finished(now time.Time, id uint64, r gc.Result)
	Next() time.Time
	Slow(now, until time.Time, most int)
	Hold(now time.Time, on bool)
	Release(now time.Time)
	Explain(o gc.Coordinates) (gc.Finding, bool)
	Len() int
}

// attached is a collector that is on.
type attached struct {
	collector
	name gc.Collector
	// serial tells its actions from those of one that was turned off meanwhile.
	serial uint64
}

// serialShift is where the serial stands in the ID of an action.
const serialShift = 40

// sides are the collectors beside the one of owners.
type sides struct {
	all      []*attached
	inFlight int // requests of all of them
	turn     int // who is asked first
	serial   uint64
}

// offer is a collector that a configuration may turn on.
type offer struct {
	name  gc.Collector
	types []typeKey
	make  func(c config.Config) collector
	// configure takes other limits over.
	configure func(now time.Time, of collector, c config.Config)
}

// attach turns collectors on and off as a configuration says. A type of which other
// fields are wanted than before is listed anew.
func (c *Controller) attach(now time.Time, next config.Config) {
	at := c.serverTime(now)
	was := c.sides.all
	c.sides.all = nil
	for _, o := range offers {
		i := slices.IndexFunc(was, func(a *attached) bool { return a.name == o.name })
		switch on := next.Collectors.Mode(o.name) != config.Off; {
		case on && i >= 0:
			o.configure(at, was[i].collector, next)
			was[i].Release(at)
			c.sides.all = append(c.sides.all, was[i])
		case on:
			c.sides.serial++
			c.sides.all = append(c.sides.all, &attached{o.make(next), o.name, c.sides.serial})
		}
	}
	c.metrics.kept.Reset() // of those that are off
	for _, s := range c.types {
		heard := c.listeners(s.key())
		if slices.Equal(heard, s.listeners) {
			continue
		}
		if s.listeners = heard; s.following != nil {
			s.unfollow()
			c.collector.Unreadable(now, s.APIVersion, s.Kind) // nobody tells of it until it is listed
			c.follow(s)
		}
	}
	c.publish(now)
}

// listeners are the collectors that want to hear of a type.
func (c *Controller) listeners(key typeKey) (list []*attached) {
	for _, a := range c.sides.all {
		i := slices.IndexFunc(offers, func(o offer) bool { return o.name == a.name })
		if slices.Contains(offers[i].types, key) {
			list = append(list, a)
		}
	}
	return list
}

// fields are what is wanted of a type beside its metadata; nil: nothing.
func (s *served) fields() metadata.Fields {
	if len(s.listeners) == 0 {
		return nil
	}
	return fieldsOf[s.key()]
}

// tell the collectors what was told of a type.
func (s *served) tell(at time.Time, e *metadata.Event) {
	for _, a := range s.listeners {
		switch e.Kind {
		case metadata.Listing:
			a.Listing(at, s.Type)
		case metadata.Observed:
			a.Observe(at, s.Type, e.Object, e.Fields)
		case metadata.Deleted:
			a.Forget(at, s.Type, e.Object)
		case metadata.Synced:
			a.Synced(at, s.Type)
		case metadata.Unreadable:
			a.Unreadable(at, s.Type)
		}
	}
}

// serverTime is the API server's, or this machine's before it is known: nothing has been
// told by then.
func (c *Controller) serverTime(now time.Time) time.Time {
	if at, known := c.api.Time(now); known {
		return at
	}
	return now
}

// room is how many more requests the collectors may send. While owners have something to
// be done, it is a quarter of all.
func (c *Controller) room(now time.Time) int {
	most := c.limit.limit
	if c.collector.Pending() > 0 || c.limit.inFlight > c.sides.inFlight {
		most = max(1, most/4)
	}
	return min(c.limit.free(now), most-c.sides.inFlight)
}

// reserve is what owners leave to the collectors.
func (c *Controller) reserve(now time.Time) int {
	if len(c.sides.all) == 0 || c.sides.inFlight > 0 || c.limit.limit < 2 {
		return 0
	}
	at := c.serverTime(now)
	for _, a := range c.sides.all {
		if next := a.Next(); !next.IsZero() && !next.After(at) {
			return 1
		}
	}
	return 0
}

// dispatchSides hands out what the collectors want, in turn.
func (c *Controller) dispatchSides(now time.Time) {
	n := len(c.sides.all)
	if n == 0 {
		return
	}
	at := c.serverTime(now)
	for i := range n {
		a := c.sides.all[(c.sides.turn+i)%n]
		a.Hold(at, c.door.holdsDeletions())
		room := c.room(now)
		share := (room + n - i - 1) / (n - i)
		for _, action := range a.Ready(at, share) {
			if action.Verb == gc.Delete {
				action.Root = rootOf(a.name)
			}
			action.ID |= a.serial << serialShift
			c.sides.inFlight++
			c.begin(now, action)
		}
	}
	c.sides.turn++
	c.metrics.collecting(c.sides.all)
}

// nextOfSides is when a collector has something by itself; zero: never.
func (c *Controller) nextOfSides(now time.Time) (next time.Time) {
	if len(c.sides.all) == 0 || c.room(now) <= 0 && c.limit.inFlight > 0 {
		return time.Time{} // an answer makes room
	}
	at := c.serverTime(now)
	for _, a := range c.sides.all {
		if t := a.Next(); !t.IsZero() && (next.IsZero() || now.Add(t.Sub(at)).Before(next)) {
			next = now.Add(t.Sub(at))
		}
	}
	return next
}

// answeredSide takes an answer to what a collector wanted.
func (c *Controller) answeredSide(now time.Time, a answer) {
	i := slices.IndexFunc(c.sides.all, func(s *attached) bool { return s.serial == a.action.ID>>serialShift })
	c.sides.inFlight--
	if i < 0 {
		return // it was turned off
	}
	s, at := c.sides.all[i], c.serverTime(now)
	a.action.ID &= 1<<serialShift - 1
	if a.action.Verb == gc.Verify || a.action.Verb == gc.Read {
		s.Answered(at, at.Add(a.asOf.Sub(now)), a.action.ID, a.read)
		return
	}
	if a.Object != nil {
		s.Patched(at, a.action.ID, *a.Object)
	}
	if a.Result == gc.Deferred {
		s.Hold(at, c.door.holdsDeletions())
		if !a.until.IsZero() {
			s.Slow(at, at.Add(a.until.Sub(now)), a.most)
		}
	}
	s.Finished(at, a.action.ID, a.Result)
}

// rootOf stands for a collector where deletions are counted by what caused them.
func rootOf(name gc.Collector) gc.Coordinates {
	return gc.Coordinates{Kind: "Collector", Name: string(name), UID: "collector/" + string(name)}
}

// isSide says whether a collector beside the one of owners asked for an action.
func isSide(a gc.Action) bool { return cmp.Or(a.Collector, gc.Owners) != gc.Owners }
