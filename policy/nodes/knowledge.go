package nodes

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// AbsentFor is how long an object counts as absent after a live read found it absent.
const AbsentFor = 30 * time.Second

// Quarantine is how long a Node must be missing: an hour, unless the configuration says otherwise, and a
// second at least. A [gc.Stamp] cannot show that a read is later than what happened in the same second.
func Quarantine(configured time.Duration) time.Duration {
	if configured > 0 {
		return max(configured, time.Second)
	}
	return time.Hour
}

// Knowledge is what a collector of other objects knows of Nodes: which are there, and which of those to
// which its objects are bound are lost. Of each that is there it keeps a flag, which is the collector's.
type Knowledge struct {
	gc.Names[bool]
	Losses
	moved func(name string)
}

// Init makes k ready. news is called when the Nodes are known, or are not any more; moved with the name of
// each Node that came, went, has another flag, is held now, or is not any more.
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

// Observe takes a Node as a list or a watch reported it.
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

// There says whether a Node is there, as far as is known.
func (k *Knowledge) There(name string) bool {
	_, there := k.Get(name)
	return there
}

// Missing says whether it is known that a Node is not there.
func (k *Knowledge) Missing(name string) bool { return k.Known() && !k.There(name) }

// At gives the coordinates of a Node, whether it is there or not.
func (k *Knowledge) At(name string) gc.Coordinates {
	t := k.Type()
	return gc.Coordinates{APIVersion: t.APIVersion, Kind: t.Kind, Resource: t.Resource, Name: name}
}

// Reckon notes whether a Node is lost: it is missing, and something that is bound to it is to go. counts
// says whether it counts against others. Weigh follows.
func (k *Knowledge) Reckon(now time.Time, l *Loss, wanted, counts bool) {
	missing := k.Missing(l.Name)
	if missing && wanted {
		k.Lose(now, l, counts)
		return
	}
	if k.Drop(l, missing); !l.left.IsZero() && k.There(l.Name) {
		k.Back(l)
	}
}

// Absence is what is known of an object that is missing. The zero value is of one that is not.
type Absence struct {
	Since  gc.Stamp // its quarantine began; 0: it is not missing, as far as is known
	read   gc.Stamp // the last live read was sent
	absent bool     // its answer was: absent
}

// Miss notes whether the object is missing now.
func (a *Absence) Miss(now time.Time, missing bool) {
	switch {
	case !missing:
		*a = Absence{}
	case a.Since == 0:
		a.Since = gc.StampOf(now)
	}
}

// Asked notes when a live read was sent. An earlier one's answer no longer counts.
func (a *Absence) Asked(at time.Time) { a.read, a.absent = gc.StampOf(at), false }

// Answered takes the answer of the read that was sent last. If it found the object, the quarantine begins
// anew: its watch is late, or somebody deletes and creates it.
func (a *Absence) Answered(now time.Time, s gc.State) {
	if a.absent = s == gc.Absent && a.read > a.Since; s == gc.Exists {
		a.Since = gc.StampOf(now)
	}
}

// Absent reports whether the last read found the object absent.
func (a *Absence) Absent() bool { return a.absent }

// Doubt discards the last read's answer.
func (a *Absence) Doubt() { a.absent = false }

// Proven reports whether the last read found it absent, and was sent no longer ago than that.
func (a *Absence) Proven(now time.Time, within time.Duration) bool {
	return a.absent && now.Sub(a.read.Time()) <= within
}

// Next is when a live read says something new: after the quarantine, or so long after the last one.
func (a *Absence) Next(quarantine time.Duration) time.Time {
	if a.absent {
		return a.read.Time().Add(quarantine)
	}
	return a.Since.Time().Add(quarantine)
}
