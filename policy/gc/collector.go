package gc

import "time"

// Interface is what every collector beside policy/cascade is, for the loop that owns it.
// Times are the API server's. It is not safe for concurrent use.
type Interface interface {
	Listing(now time.Time, t Type)                                // a list of the type begins
	Observe(now time.Time, t Type, o Object, fields any)          // fields: of the collector's own type; nil: they could not be read, and nothing is done about o
	Forget(now time.Time, t Type, o Object)                       // a DELETED event
	Synced(now time.Time, t Type)                                 // the list has ended
	Unreadable(now time.Time, t Type)                             // the type cannot be read now: nothing that rests on it is asked for
	Restored(now time.Time)                                       // etcd was restored: everything is forgotten, lists follow
	Ready(now time.Time, most int) []Action                       // what is due
	Answered(now, asOf time.Time, id uint64, a Answer)            // to Verify and Read, which were sent at asOf
	Patched(now time.Time, id uint64, o Object)                   // the object after a FailPod that is Done, before Finished
	Finished(now time.Time, id uint64, r Result)                  // of all other verbs
	Next() time.Time                                              // when Ready has more to say; zero: not by itself
	Slow(now, until time.Time, most int)                          // see Queue.Slow
	Hold(now time.Time, on bool)                                  // nothing is asked for while it is on
	Release(now time.Time)                                        // what was withheld or slowed is wanted now
	Explain(o Coordinates) (f Finding, known bool)                // what is to become of an object
	Len() int                                                     // objects kept
	Planned(until time.Time, most int) (first []Planned, all int) // what is due until then; see Earliest
}

// Rules are what a [Collection] asks about the objects it keeps.
type Rules[E Kept] struct {
	// Decide says why e goes, and when; at the zero time, why it is kept.
	Decide func(e E) (Reason, time.Time)
	// Act is what to do about e at that time.
	Act func(e E, why Reason) Action
	// Before, if set, is called with each object that is about to be judged anew, and
	// Gone with each that was forgotten.
	Before, Gone func(e E)
	// Named, if set, says whether [Collection.Named] finds e. Of a name there is one: it replaces whoever
	// had the name before.
	Named func(e E) bool
	// Goes, if set, says whether an object goes at its time for that reason. For others something else is
	// done then, and what is found has no time.
	Goes func(why Reason) bool
	// Whole says that reasons rest on [Objects.Whole]: all are judged anew when a list begins or ends.
	Whole bool
}

// Collection is the objects that a collector keeps, of one type or of several, each with
// the moment at which something is to be done about it. Embed it: it is all of a
// collector but [Interface].Observe, and takes no part in what its Rules say.
type Collection[E Kept] struct {
	rules   Rules[E]
	objects Objects[E]
	named   map[string]E
	beside  besides
	queue   Queue[E]
	now     time.Time
}

// NewCollection makes an empty one.
func NewCollection[E Kept](rules Rules[E]) Collection[E] {
	return Collection[E]{rules: rules, named: make(map[string]E)}
}

// Now is the time of the last input.
func (c *Collection[E]) Now() time.Time { return c.now }

// Beside registers b for the objects of another kind, for all but [Interface].Observe.
func (c *Collection[E]) Beside(kind string, b Beside) {
	c.beside = append(c.beside, struct {
		kind string
		Beside
	}{kind, b})
}

// Tell the time.
func (c *Collection[E]) Tell(now time.Time) { c.now = now }

// Objects are what is kept.
func (c *Collection[E]) Objects() *Objects[E] { return &c.objects }

// Named gives the object of a name; the zero value if there is none. See [Rules].
func (c *Collection[E]) Named(name string) E { return c.named[name] }

// See an object as a list or a watch reported it. If it is new or changed, learn is called,
// and it is judged anew.
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

// Plan judges e anew.
func (c *Collection[E]) Plan(e E) {
	if c.rules.Before != nil {
		c.rules.Before(e)
	}
	_, due := c.rules.Decide(e)
	c.queue.Schedule(e, due)
}

// PlanAll judges all anew.
func (c *Collection[E]) PlanAll() {
	for e := range c.objects.All {
		c.Plan(e)
	}
}

// Listing says that a list of a type begins.
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

// Forget takes a DELETED event.
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

// Synced says that the objects of a type are known up to now.
func (c *Collection[E]) Synced(now time.Time, t Type) {
	c.now = now
	if b := c.beside.of(t); b != nil {
		b.Synced(t)
	} else if c.objects.Synced(t, c.gone) || c.rules.Whole {
		c.PlanAll()
	}
}

// Unreadable says that a type cannot be listed or watched now: what is known of it is old.
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

// Ready gives what is due, the longest first.
func (c *Collection[E]) Ready(now time.Time, most int) []Action {
	c.now = now
	return c.queue.Ready(now, most, func(e E) (Action, bool) {
		why, due := c.rules.Decide(e)
		if due.IsZero() {
			return Action{}, false
		}
		// The moment came by an earlier judgement. Other objects or the clock can have
		// moved it since.
		if nanos(due) > nanos(now) {
			c.queue.Schedule(e, due)
			return Action{}, false
		}
		return c.rules.Act(e, why), true
	})
}

// Answered takes nothing: a collector that reads has its own.
func (c *Collection[E]) Answered(now, _ time.Time, _ uint64, _ Answer) { c.now = now }

// Read takes how a live read went, and gives back what it was about, which is looked at
// again; false if nobody waits for it any more, or it returned nothing.
func (c *Collection[E]) Read(now time.Time, id uint64, a Answer) (e E, ok bool) {
	c.now = now
	result := a.State.Result()
	if e, ok = c.queue.Finished(now, id, result); !ok || result != Done {
		return e, false
	}
	c.queue.Again(e)
	return e, true
}

// Patched takes nothing: a collector that patches has its own.
func (c *Collection[E]) Patched(now time.Time, _ uint64, _ Object) { c.now = now }

// Finished takes how an action went.
func (c *Collection[E]) Finished(now time.Time, id uint64, r Result) {
	c.now = now
	c.queue.Finished(now, id, r)
}

// Next is when Ready has more to say; zero: not by itself.
func (c *Collection[E]) Next() time.Time { return c.queue.Next() }

// Slow says that few are wanted, and none before a moment.
func (c *Collection[E]) Slow(now, until time.Time, most int) {
	c.now = now
	c.queue.Slow(now, until, most)
}

// Hold has nothing asked for while it is on.
func (c *Collection[E]) Hold(now time.Time, on bool) {
	c.now = now
	c.queue.Hold(on)
}

// Release has asked for again what was withheld or slowed.
func (c *Collection[E]) Release(now time.Time) {
	c.now = now
	c.queue.Release(c.objects.All)
}

// Explain says why an object goes, and when, or why it is kept.
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

// Delete is the action that deletes e, with its UID and version as preconditions.
func (c *Collection[E]) Delete(by Collector, e E, policy Policy, why Reason) Action {
	return Action{Collector: by, Verb: Delete, Policy: policy, Reason: why, Object: c.objects.Coordinates(e), ResourceVersion: e.entry().ResourceVersion}
}

// Len is how many objects are kept.
func (c *Collection[E]) Len() int { return c.objects.Len() }

// Planned are the objects that are due until then.
func (c *Collection[E]) Planned(until time.Time, most int) ([]Planned, int) {
	due := func(e E) time.Time {
		if c.rules.Goes == nil {
			return e.queued().Due()
		}
		return c.find(e).Due
	}
	return Earliest(c.objects.All, due, until, most, func(e E) Planned { return Planned{c.objects.Coordinates(e), c.find(e)} })
}
