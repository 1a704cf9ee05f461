package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// attached is a collector that is on.
type attached struct {
	gc.Interface
	name gc.Collector
	// serial tells its actions from those of one that was turned off meanwhile.
	serial uint64
}

// serialShift is where the serial stands in the ID of an action.
const serialShift = 40

// sides are the collectors beside the one of owners.
type sides struct {
	all      []*attached
	inFlight int       // requests of all of them
	last     bool      // the last request was one of those
	cascades time.Time // when one of owners last deleted a dependent, or took a reference
	turn     int       // who is asked first
	serial   uint64
}

// offer is a collector that a configuration may turn on.
type offer struct {
	name  gc.Collector
	types []typeKey
	make  func(c config.Config) gc.Interface
	// configure takes other limits over.
	configure func(now time.Time, of gc.Interface, c config.Config)
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
			o.configure(at, was[i].Interface, next)
			was[i].Release(at)
			c.sides.all = append(c.sides.all, was[i])
		case on:
			c.sides.serial++
			c.sides.all = append(c.sides.all, &attached{o.make(next), o.name, c.sides.serial})
		}
	}
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
	switch len(s.listeners) {
	case 0:
		return nil
	case 1:
		return fieldsFor(s.key(), s.listeners[0].name)
	}
	of := make([]metadata.Fields, len(s.listeners))
	for i, a := range s.listeners {
		of[i] = fieldsFor(s.key(), a.name)
	}
	return func(message []byte) (any, error) {
		all := make(each, len(of))
		for i, read := range of {
			var err error
			if all[i], err = read(message); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
}

// each listener's fields of an object.
type each []any

// of the listener at a place.
func (f each) of(place int, all any) any {
	if f == nil {
		return all
	}
	return f[place]
}

// tell the collectors what was told of a type.
func (s *served) tell(at time.Time, e *metadata.Event) {
	several, _ := e.Fields.(each)
	for i, a := range s.listeners {
		switch e.Kind {
		case metadata.Listing:
			a.Listing(at, s.Type)
		case metadata.Observed:
			a.Observe(at, s.Type, e.Object, several.of(i, e.Fields))
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

// room is how many more requests the collectors may send: of all that may be on their way
// a half, and one while cascades reach dependents, which would wait behind them in the API
// server. What has ended is in no hurry.
func (c *Controller) room(now time.Time) int {
	const cascadesLast = 5 * time.Second
	most := max(1, c.limit.limit/2)
	if now.Sub(c.sides.cascades) < cascadesLast {
		most = 1
	}
	return min(c.limit.free(now), most-c.sides.inFlight)
}

// reserve is what owners leave to the collectors. If there may be one request at a time,
// they take turns.
func (c *Controller) reserve(now time.Time) int {
	if len(c.sides.all) == 0 || c.sides.inFlight > 0 || c.limit.limit < 2 && c.sides.last {
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
		a.Hold(at, c.door.holdsSide(a.name))
		room := c.room(now)
		fair := (room + n - i - 1) / (n - i)
		ready := a.Ready(at, fair)
		for _, action := range ready {
			if isDeletion(action) {
				action.Root = rootOf(a.name)
			}
			action.ID |= a.serial << serialShift
			if action.Verb != gc.DeleteVolume && action.Verb != gc.Inventory {
				c.sides.inFlight++
			}
			c.begin(now, action)
		}
		if fair > 0 && len(ready) == fair {
			c.limit.filled()
		}
	}
	c.sides.turn++
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
	if a.action.Verb != gc.DeleteVolume {
		c.sides.inFlight--
	}
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
		s.Hold(at, c.door.holdsSide(s.name))
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

// isDeletion says whether an action deletes: the brake counts it.
func isDeletion(a gc.Action) bool { return a.Verb == gc.Delete || a.Verb == gc.DeleteVolume }

// isSide says whether a collector beside the one of owners asked for an action.
func isSide(a gc.Action) bool { return cmp.Or(a.Collector, gc.Owners) != gc.Owners }
