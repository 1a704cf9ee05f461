package nodes

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// AbsentFor is how long an object counts as absent after a live read found it absent.
const AbsentFor = 30 * time.Second

// Quarantine returns how long a Node must be missing: an hour by default, and at least a second. A
// [gc.Stamp] cannot show that a read is later than an event in the same second.
func Quarantine(configured time.Duration) time.Duration {
	if configured > 0 {
		return max(configured, time.Second)
	}
	return time.Hour
}

// Knowledge is what a collector of other objects knows of Nodes: which exist, and which of those to
// which its objects are bound are lost. It keeps a flag for each existing Node, with a meaning of the
// collector's choice.
type Knowledge struct {
	gc.Names[bool]
	Losses
	moved func(name string)
}

// Init makes k ready for use. k calls news when Nodes become known or unknown. It calls moved with the
// name of each Node that appeared or disappeared, whose flag changed, or that became held or is no longer
// held.
func (k *Knowledge) Init(maxShare float64, news func(), moved func(name string)) {
	k.SetShare(maxShare)
	k.News, k.moved = news, moved
	k.Gone = func(name string, _ bool) { k.move(name, -1) }
	k.Changed = func(l *Loss) { moved(l.Name) }
}

func (k *Knowledge) move(name string, present int) {
	k.AddPresent(present)
	k.moved(name)
	k.Weigh()
}

// Observe receives a Node as a list or a watch reported it.
func (k *Knowledge) Observe(t gc.Type, o gc.Object, flag bool) {
	switch before, was := k.Names.Observe(t, o, flag); {
	case !was:
		delete(k.settled, o.Name)
		k.move(o.Name, 1)
	case flag != before:
		k.move(o.Name, 0)
	}
}

// Restored forgets everything: etcd was restored.
func (k *Knowledge) Restored() {
	k.Names.Restored()
	k.Reset()
}

// Weigh decides which Nodes are held. While Nodes are not known, none counts as lost, and nothing is decided:
// a hold and what a person has confirmed outlast that.
func (k *Knowledge) Weigh() {
	if k.Known() {
		k.Losses.Weigh()
	}
}

// There reports whether a Node exists, as far as is known.
func (k *Knowledge) There(name string) bool {
	_, there := k.Get(name)
	return there
}

// Missing reports whether a Node is known not to exist.
func (k *Knowledge) Missing(name string) bool { return k.Known() && !k.There(name) }

// At returns the coordinates of a Node, whether it exists or not.
func (k *Knowledge) At(name string) gc.Coordinates {
	t := k.Type()
	return gc.Coordinates{APIVersion: t.APIVersion, Kind: t.Kind, Resource: t.Resource, Name: name}
}

// Reckon records whether a Node is lost: it is missing, and something bound to it would be deleted
// (wanted). counts is whether it counts as one of the Nodes that are lost together. The caller must then
// call Weigh.
func (k *Knowledge) Reckon(now time.Time, l *Loss, wanted, counts bool) {
	missing := k.Missing(l.Name)
	if missing && wanted {
		if !l.seen {
			now = beforeStart
		}
		k.Lose(now, l, counts)
		return
	}
	there := k.There(l.Name)
	l.seen = l.seen || there
	if k.Drop(l, missing); !l.left.IsZero() && there {
		k.Back(l)
	}
}

// Absence is what is known of a missing object. The zero value means that the object is not
// missing.
type Absence struct {
	Since  gc.Stamp // when its quarantine began; 0: it is not known to be missing
	read   gc.Stamp // when the last live read was sent
	absent bool     // that read found the object absent
}

// Miss records whether the object is missing now.
func (a *Absence) Miss(now time.Time, missing bool) {
	switch {
	case !missing:
		*a = Absence{}
	case a.Since == 0:
		a.Since = gc.StampOf(now)
	}
}

// Asked records when a live read was sent. The answer to an earlier read no longer counts.
func (a *Absence) Asked(at time.Time) { a.read, a.absent = gc.StampOf(at), false }

// Answered receives the answer to the last read. If the read found the object, the quarantine starts
// over: the watch is late, or the object is deleted and created repeatedly.
func (a *Absence) Answered(now time.Time, s gc.State) {
	if a.absent = s == gc.Absent && a.read > a.Since; s == gc.Exists {
		a.Since = gc.StampOf(now)
	}
}

// Absent reports whether the last read found the object absent.
func (a *Absence) Absent() bool { return a.absent }

// Doubt discards the last read's answer.
func (a *Absence) Doubt() { a.absent = false }

// Proven reports whether the last read found the object absent and was sent at most within
// ago.
func (a *Absence) Proven(now time.Time, within time.Duration) bool {
	return a.absent && now.Sub(a.read.Time()) <= within
}

// Next returns when another live read is due: after the quarantine, or that long after the last
// read if it found the object absent.
func (a *Absence) Next(quarantine time.Duration) time.Time {
	if a.absent {
		return a.read.Time().Add(quarantine)
	}
	return a.Since.Time().Add(quarantine)
}
