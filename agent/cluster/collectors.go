package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// runningCollector is a collector that is on.
type runningCollector struct {
	gc.Interface
	registration
	// serial distinguishes its actions from those of an earlier one that was turned off.
	serial uint64
}

// serialShift is the position of the serial in the ID of an action, in bits.
const serialShift = 40

// collectorSet has the running collectors other than the cascade.
type collectorSet struct {
	all              []*runningCollector
	inFlight         int       // requests of all of them
	lastWasCollector bool      // the last request was of a collector
	lastCascade      time.Time // when the cascade last deleted a dependent, or removed a reference
	turn             int       // index of the collector that is asked first
	serial           uint64
}

// of returns the collector that requested an action, and the ID that the collector gave it; nil if
// the collector was turned off since.
func (c *collectorSet) of(action uint64) (*runningCollector, uint64) {
	for _, r := range c.all {
		if r.serial == action>>serialShift {
			return r, action & (1<<serialShift - 1)
		}
	}
	return nil, 0
}

// configureCollectors turns collectors on and off as configured. A type whose listeners
// have changed is listed again, because other fields of it are read.
func (c *Controller) configureCollectors(now time.Time, next config.Config) {
	at := c.serverTime(now)
	was := c.collectors.all
	c.collectors.all = nil
	for _, o := range registry {
		i := slices.IndexFunc(was, func(a *runningCollector) bool { return a.name == o.name })
		switch on := next.ModeOf(o.name) != config.Off; {
		case on && i >= 0:
			o.configure(at, was[i].Interface, next)
			was[i].Release(at)
			c.collectors.all = append(c.collectors.all, was[i])
		case on:
			c.collectors.serial++
			c.collectors.all = append(c.collectors.all, &runningCollector{o.create(next), o, c.collectors.serial})
		}
	}
	for _, s := range c.types.all {
		heard := c.listeners(s.key())
		if slices.Equal(heard, s.listeners) {
			continue
		}
		if s.listeners = heard; s.following != nil {
			s.unfollow()
			c.owners.Unreadable(now, s.APIVersion, s.Kind) // no events until it is listed again
			s.setState(stateReferred, "", now)
		}
		if c.wanted(s) {
			c.follow(s)
		}
	}
	c.publish(now)
}

// listeners returns the collectors that watch a type.
func (c *Controller) listeners(key typeKey) (list []*runningCollector) {
	for _, a := range c.collectors.all {
		if _, watches := a.watches(key); watches {
			list = append(list, a)
		}
	}
	return list
}

// fields returns the function that reads what the listeners need beside metadata; nil: nothing.
func (s *servedType) fields() metadata.Fields {
	of := make([]metadata.Fields, len(s.listeners))
	for i, a := range s.listeners {
		of[i], _ = a.watches(s.key())
	}
	switch len(of) {
	case 0:
		return nil
	case 1:
		return of[0]
	}
	return func(message []byte) (any, error) {
		all := make(fieldsByListener, len(of))
		for i, read := range of {
			if read == nil {
				continue
			}
			var err error
			if all[i], err = read(message); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
}

// fieldsByListener has the fields of an object that each listener wants.
type fieldsByListener []any

// forListener returns the fields of the listener at an index. If there is only one listener, f is
// nil and all is its fields.
func (f fieldsByListener) forListener(place int, all any) any {
	if f == nil {
		return all
	}
	return f[place]
}

// notify passes an event of a type to the collectors that listen to it.
func (s *servedType) notify(at time.Time, e *metadata.Event) {
	several, _ := e.Fields.(fieldsByListener)
	for i, a := range s.listeners {
		switch e.Kind {
		case metadata.Listing:
			a.Listing(at, s.Type)
		case metadata.Observed:
			a.Observe(at, s.Type, e.Object, several.forListener(i, e.Fields))
		case metadata.Deleted:
			a.Forget(at, s.Type, e.Object)
		case metadata.Synced:
			a.Synced(at, s.Type)
		case metadata.Unreadable:
			a.Unreadable(at, s.Type)
		}
	}
}

// claimer is a collector that knows a deletion of its own by the object alone.
type claimer interface {
	Claims(uid string) bool
}

// claim notes the root of an object that was being deleted before this process listed it: the previous
// leader's collector may have done it. Without that, a backlog would lose its root at each change of the
// leader.
func (c *Controller) claim(s *servedType, o gc.Object) {
	for _, a := range s.listeners {
		if x, can := a.Interface.(claimer); can && c.gate.Enforces(a.name) && x.Claims(o.UID) {
			c.owners.Because(gc.Coordinates{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}, a.name.Root())
		}
	}
}

// serverTime returns the API server's time, or this machine's while that is not known. Until it is
// known, no follower has reported anything.
func (c *Controller) serverTime(now time.Time) time.Time {
	if at, known := c.api.Time(now); known {
		return at
	}
	return now
}

// collectorRoom returns how many more requests the collectors may send. They may have half of the
// limit in flight, but only one request while cascades delete dependents: those would wait behind
// the collectors' in the API server. Deletions by collectors are not urgent.
func (c *Controller) collectorRoom(now time.Time) int {
	const cascadesLast = 5 * time.Second
	most := max(1, c.requests.limit.Limit()/2)
	if now.Sub(c.collectors.lastCascade) < cascadesLast {
		most = 1
	}
	return min(c.requests.limit.Free(now), most-c.collectors.inFlight)
}

// reservedForCollectors returns how many requests the cascade leaves to the collectors. If only one
// request may be in flight, cascade and collectors take turns.
func (c *Controller) reservedForCollectors(now time.Time) int {
	if len(c.collectors.all) == 0 || c.collectors.inFlight > 0 || c.requests.limit.Limit() < 2 && c.collectors.lastWasCollector {
		return 0
	}
	at := c.serverTime(now)
	for _, a := range c.collectors.all {
		if next := a.Next(); !next.IsZero() && !next.After(at) {
			return 1
		}
	}
	return 0
}

// dispatchCollectors begins the actions that are due in the collectors. The collectors take turns.
func (c *Controller) dispatchCollectors(now time.Time) {
	n := len(c.collectors.all)
	if n == 0 {
		return
	}
	at := c.serverTime(now)
	for i := range n {
		a := c.collectors.all[(c.collectors.turn+i)%n]
		a.Hold(at, c.gate.Held(a.name))
		room := c.collectorRoom(now)
		fair := (room + n - i - 1) / (n - i)
		ready := a.Ready(at, fair)
		for _, action := range ready {
			if gate.IsDeletion(action) {
				action.Root = a.name.Root()
				c.owners.Because(action.Object, action.Root)
			}
			action.ID |= a.serial << serialShift
			if action.Verb != gc.DeleteVolume && action.Verb != gc.Inventory {
				c.collectors.inFlight++
			}
			c.begin(now, action)
		}
		if fair > 0 && len(ready) == fair {
			c.requests.limit.MarkFull()
		}
	}
	c.collectors.turn++
}

// nextOfCollectors returns the next deadline of a collector; zero: none.
func (c *Controller) nextOfCollectors(now time.Time) (next time.Time) {
	if len(c.collectors.all) == 0 || c.collectorRoom(now) <= 0 && c.requests.limit.InFlight() > 0 {
		return time.Time{} // an answer makes room
	}
	at := c.serverTime(now)
	for _, a := range c.collectors.all {
		if t := a.Next(); !t.IsZero() && (next.IsZero() || now.Add(t.Sub(at)).Before(next)) {
			next = now.Add(t.Sub(at))
		}
	}
	return next
}

// collectorAnswered passes an answer to the collector that requested it.
func (c *Controller) collectorAnswered(now time.Time, a answer) {
	if a.action.Verb != gc.DeleteVolume {
		c.collectors.inFlight--
	}
	if gate.IsDeletion(a.action) && (!a.Sent || a.Result == gc.Forbidden || a.Result == gc.TooMany) {
		c.owners.Because(a.action.Object, gc.Coordinates{}) // any other answer can hide a deletion
	}
	s, id := c.collectors.of(a.action.ID)
	if s == nil {
		return // the collector was turned off
	}
	at := c.serverTime(now)
	if a.action.Verb.Reads() {
		s.Answered(at, at.Add(a.asOf.Sub(now)), id, a.read)
		return
	}
	if a.Object != nil {
		s.Patched(at, id, *a.Object)
	}
	if a.Result == gc.Deferred {
		s.Hold(at, c.gate.Held(s.name))
		if !a.RetryAt.IsZero() {
			s.Slow(at, at.Add(a.RetryAt.Sub(now)), a.Batch)
		}
	}
	s.Finished(at, id, a.Result)
}

// isOtherCollector reports whether a collector other than the cascade requested an action.
func isOtherCollector(a gc.Action) bool { return cmp.Or(a.Collector, gc.Owners) != gc.Owners }
