package gc

import "time"

// Interface is what every collector except policy/cascade implements, for the loop that
// owns it. Times are the API server's. It is not safe for concurrent use.
type Interface interface {
	Listing(now time.Time, t Type) // a list of the type begins
	// Observe gets fields of the collector's own type; nil: they could not be read, and no
	// action is taken on o.
	Observe(now time.Time, t Type, o Object, fields any)
	Forget(now time.Time, t Type, o Object) // a DELETED event
	Synced(now time.Time, t Type)           // the list has ended
	// Unreadable: the type cannot be read now. No action that rests on it is returned.
	Unreadable(now time.Time, t Type)
	// Restored: etcd was restored. Everything is forgotten, and lists follow.
	Restored(now time.Time)
	Ready(now time.Time, most int) []Action            // the actions that are due
	Answered(now, asOf time.Time, id uint64, a Answer) // to a read (see Verb.Reads) sent at asOf
	// Patched gets the object after a FailPod that is Done, before Finished.
	Patched(now time.Time, id uint64, o Object)
	Finished(now time.Time, id uint64, r Result)                  // the result of any other verb
	Next() time.Time                                              // next time for Ready; zero: none
	Slow(now, until time.Time, most int)                          // see Queue.Slow
	Hold(now time.Time, on bool)                                  // no actions while it is on
	Release(now time.Time)                                        // emit withheld and slowed actions
	Explain(o Coordinates) (f Finding, known bool)                // why an object is deleted or kept
	Len() int                                                     // objects kept
	Planned(until time.Time, most int) (first []Planned, all int) // what is due until a time; see Earliest
}

// Rules are the decisions of a [Collection] about its objects.
type Rules[E Kept] struct {
	// Decide returns why e is to be acted on, and when. With the zero time, the reason is
	// why e is kept.
	Decide func(e E) (Reason, time.Time)
	// Act returns the action for e at that time.
	Act func(e E, why Reason) Action
	// Before, if set, is called with each object that is about to be judged again. Gone, if
	// set, is called with each object that was forgotten.
	Before, Gone func(e E)
	// Named, if set, reports whether [Collection.Named] finds e. A name has one object: a
	// new one replaces the object that had the name before.
	Named func(e E) bool
	// Goes, if set, reports whether an object is deleted at its time for that reason. For
	// other reasons the action is another one, and the Finding has no time.
	Goes func(why Reason) bool
	// Room, if set, reports whether the action on e can begin now. If not, e waits until
	// [Collection.Continue], or until it changes.
	Room func(e E) bool
	// Whole is set if reasons depend on [Objects.Whole]: all objects are judged again when
	// a list begins or ends.
	Whole bool
}

// Collection is the objects that a collector keeps, of one type or of several, each with
// the time at which an action on it is due. A collector embeds it and adds
// [Interface].Observe. All decisions are in its Rules.
type Collection[E Kept] struct {
	rules   Rules[E]
	objects Objects[E]
	named   map[string]E
	beside  besides
	queue   Queue[E]
	now     time.Time
}

// NewCollection returns an empty collection.
func NewCollection[E Kept](rules Rules[E]) Collection[E] {
	return Collection[E]{rules: rules, named: make(map[string]E)}
}

// Now is the time of the last input.
func (c *Collection[E]) Now() time.Time { return c.now }

// Beside registers b for the objects of another kind. b gets all inputs of that kind except
// [Interface].Observe.
func (c *Collection[E]) Beside(kind string, b Beside) {
	c.beside = append(c.beside, struct {
		kind string
		Beside
	}{kind, b})
}

// SetTime sets the time of the last input.
func (c *Collection[E]) SetTime(now time.Time) { c.now = now }

// Objects returns the objects that are kept.
func (c *Collection[E]) Objects() *Objects[E] { return &c.objects }

// Named returns the object with a name; the zero value if there is none. See [Rules].
func (c *Collection[E]) Named(name string) E { return c.named[name] }

// See handles an object that a list or a watch reported. fresh makes the entry of a new
// object. If the object is new or changed, learn is called, and it is judged again.
func (c *Collection[E]) See(now time.Time, t Type, o Object, fresh func() E, learn func(E)) {
	c.now = now
	e, changed := c.objects.Observe(t, o, fresh)
	if !changed {
		return
	}
	learn(e)
	if c.rules.Named != nil && c.rules.Named(e) {
		name := e.entry().Name
		if before, was := c.named[name]; was && before != e {
			c.Drop(before.entry().UID)
		}
		c.named[name] = e
	}
	c.queue.Changed(e)
	c.Plan(e)
}

// Plan judges e and schedules it.
func (c *Collection[E]) Plan(e E) {
	if c.rules.Before != nil {
		c.rules.Before(e)
	}
	_, due := c.rules.Decide(e)
	c.queue.Schedule(e, due)
}

// PlanAll judges and schedules all objects.
func (c *Collection[E]) PlanAll() {
	for e := range c.objects.All {
		c.Plan(e)
	}
}

// Listing begins a list of a type.
func (c *Collection[E]) Listing(now time.Time, t Type) {
	c.now = now
	if b := c.beside.of(t); b != nil {
		b.Listing(t)
		return
	}
	if c.objects.Listing(t); c.rules.Whole {
		c.PlanAll()
	}
}

// Forget handles a DELETED event.
func (c *Collection[E]) Forget(now time.Time, t Type, o Object) {
	c.now = now
	if b := c.beside.of(t); b != nil {
		b.Forget(o)
		return
	}
	c.Drop(o.UID)
}

// Drop forgets the object with a UID.
func (c *Collection[E]) Drop(uid string) {
	if e, known := c.objects.Forget(uid); known {
		c.gone(e)
	}
}

func (c *Collection[E]) gone(e E) {
	if name := e.entry().Name; c.named[name] == e {
		delete(c.named, name)
	}
	if c.queue.Drop(e); c.rules.Gone != nil {
		c.rules.Gone(e)
	}
}

// Synced ends a list of a type: all its objects are known up to now.
func (c *Collection[E]) Synced(now time.Time, t Type) {
	c.now = now
	if b := c.beside.of(t); b != nil {
		b.Synced(t)
	} else if c.objects.Synced(t, c.gone) || c.rules.Whole {
		c.PlanAll()
	}
}

// Unreadable marks a type that cannot be listed or watched now: what is known of it is old.
func (c *Collection[E]) Unreadable(now time.Time, t Type) {
	c.now = now
	if b := c.beside.of(t); b != nil {
		b.Unreadable(t)
	} else if c.objects.Unreadable(t) {
		c.PlanAll()
	}
}

// Restored forgets everything: etcd was restored.
func (c *Collection[E]) Restored(now time.Time) {
	c.now = now
	for _, b := range c.beside {
		b.Restored()
	}
	c.objects.Restored(c.gone)
}

// Ready returns the actions that are due, those due longest first.
func (c *Collection[E]) Ready(now time.Time, most int) []Action {
	c.now = now
	return c.queue.Ready(now, most, func(e E) (Action, bool) {
		why, due := c.rules.Decide(e)
		if due.IsZero() {
			return Action{}, false
		}
		// The time is from an earlier judgement. Other objects or the clock can have moved
		// it since.
		if nanos(due) > nanos(now) {
			c.queue.Schedule(e, due)
			return Action{}, false
		}
		if c.rules.Room != nil && !c.rules.Room(e) {
			c.queue.Schedule(e, due)
			c.queue.Wait(e, latest)
			return Action{}, false
		}
		return c.rules.Act(e, why), true
	})
}

// Continue ends the wait of e for room. It does nothing if e was forgotten.
func (c *Collection[E]) Continue(e E) {
	if c.objects.all[e.entry().UID] == e {
		c.queue.Wait(e, c.now)
	}
}

// Answered ignores the answer: a collector that reads has its own method.
func (c *Collection[E]) Answered(now, _ time.Time, _ uint64, _ Answer) { c.now = now }

// Read handles the answer to a live read, and returns the object that the read was about.
// That object is judged again when it is due. ok is false if the action is not in flight
// any more, or the read proved nothing.
func (c *Collection[E]) Read(now time.Time, id uint64, a Answer) (e E, ok bool) {
	c.now = now
	result := a.State.Result()
	if e, ok = c.queue.Finished(now, id, result); !ok || result != Done {
		return e, false
	}
	c.queue.Again(e)
	return e, true
}

// Patched ignores the object: a collector that patches has its own method.
func (c *Collection[E]) Patched(now time.Time, _ uint64, _ Object) { c.now = now }

// Finished handles the result of an action.
func (c *Collection[E]) Finished(now time.Time, id uint64, r Result) {
	c.now = now
	c.queue.Finished(now, id, r)
}

// Next is when Ready has more; zero if it has not without further input.
func (c *Collection[E]) Next() time.Time { return c.queue.Next() }

// Slow limits actions, and stops them until a time. See [Queue.Slow].
func (c *Collection[E]) Slow(now, until time.Time, most int) {
	c.now = now
	c.queue.Slow(now, until, most)
}

// Hold stops all actions while on is true.
func (c *Collection[E]) Hold(now time.Time, on bool) {
	c.now = now
	c.queue.Hold(on)
}

// Release makes withheld and slowed actions due again.
func (c *Collection[E]) Release(now time.Time) {
	c.now = now
	c.queue.Release(c.objects.All)
}

// Explain returns why an object is deleted, and when, or why it is kept.
func (c *Collection[E]) Explain(o Coordinates) (f Finding, known bool) {
	e, known := c.objects.all[o.UID]
	if known {
		f = c.find(e)
	}
	return f, known
}

func (c *Collection[E]) find(e E) Finding {
	why, _ := c.rules.Decide(e)
	f := e.queued().Find(why)
	if c.rules.Goes != nil && !c.rules.Goes(why) {
		f.Due = time.Time{}
	}
	return f
}

// Delete returns the action that deletes e, with its UID and version as preconditions.
func (c *Collection[E]) Delete(by Collector, e E, policy Policy, why Reason) Action {
	return Action{Collector: by, Verb: Delete, Policy: policy, Reason: why, Object: c.objects.Coordinates(e), ResourceVersion: e.entry().ResourceVersion}
}

// Len is how many objects are kept.
func (c *Collection[E]) Len() int { return c.objects.Len() }

// Planned returns the objects that are due until a time; see [Earliest].
func (c *Collection[E]) Planned(until time.Time, most int) ([]Planned, int) {
	due := func(e E) time.Time {
		if c.rules.Goes == nil {
			return e.queued().Due()
		}
		return c.find(e).Due
	}
	return Earliest(c.objects.All, due, until, most, func(e E) Planned { return Planned{Object: c.objects.Coordinates(e), Finding: c.find(e)} })
}
