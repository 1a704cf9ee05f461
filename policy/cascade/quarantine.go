package cascade

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Types of other API servers (Type.Aggregated) are in quarantine: what those say
// concerns no other type, and that an object is absent is believed slowly.
//
//   - An owner is absent after two NotFounds, Config.AbsenceAfter apart, each beside a
//     witness: another object of the type, known to be there, which is read right after
//     and found. Storage that answers NotFound whatever is wrong finds no witness. A
//     DELETED event counts as the first; missing from a list as none. Until then the
//     owner is unknown.
//   - The stream wins: an object that a list or a watch reported is there, whatever a live
//     read says. One that is to be acted on must be read as the stream reported it.
//   - resourceVersions are compared for equality alone.

// absence is what is known of an owner that seems to be gone.
type absence struct {
	first   time.Time // the first NotFound that counts, or DELETED
	asked   time.Time // of the NotFound that wants a witness; zero: none does
	deleted time.Time // a DELETED event
	alone   bool      // the last NotFound had no witness
}

// witness is a live read that shows that a server answers truly.
type witness struct {
	kind uint32 // of those it is read for
	uid  string
	node index
}

// beside is how long after a NotFound its witness may be read.
const beside = 10 * time.Second

// quarantine is what a collector knows of the types in it.
type quarantine struct {
	absences  map[index]*absence
	witnesses map[uint64]witness // by the read's ID
	asking    map[uint32]bool    // kinds that have one on its way
	last      map[uint32]index   // witnesses that did not help: look behind them
}

func (c *Collector) quarantined(i index) bool { return c.ofOthers(c.at(i).kind) }

func (c *Collector) ofOthers(kind uint32) bool {
	return c.kinds.all[kind].aggregated && !c.config.TrustAggregated
}

// streamed says whether a list or a watch reports an object that was seen.
func (c *Collector) streamed(i index) bool {
	n := c.at(i)
	return n.flags&observed != 0 && c.kinds.all[n.kind].phase != unwatched
}

// distrusted takes what a live read returned of an object in quarantine; true says that it
// is not to be taken for more than that.
func (c *Collector) distrusted(i index, w *work, asOf time.Time, a *gc.Answer) bool {
	if !c.quarantined(i) || a.State != gc.Exists && a.State != gc.Absent || a.State == gc.Exists && a.Object.UID == "" {
		return false
	}
	same := a.State == gc.Exists && a.Object.UID == c.uidOf(i)
	switch r := c.absent.absences[i]; {
	case c.streamed(i) && same && c.agrees(i, a.Object):
		w.disputed, w.asRead = false, strings.Clone(a.Object.ResourceVersion)
		a.Object.ResourceVersion = c.versionOf(i)
		return false
	case c.streamed(i), same && r != nil && asOf.Before(r.deleted):
		w.disputed, w.readAt = c.streamed(i), time.Time{}
		c.retry(i, w, c.config.RetryMin) // the stream is behind, or the server is
		return true
	case same:
		return false
	}
	c.notFound(i, asOf, a.State == gc.Exists)
	return true
}

// agrees says whether a live read returned what the stream did, but for the version.
func (c *Collector) agrees(i index, o gc.Object) bool {
	n := c.at(i)
	return c.sameOwners(i, o.Owners) && finalizerSum(o.Finalizers) == n.finalizers && o.Terminating == (n.flags&terminating != 0)
}

// precondition is the version that a request demands. What a live read returned and what the
// stream did may differ there for good: after a conflict it is the other's turn.
func (c *Collector) precondition(i index) string {
	if w := c.work[i]; w != nil && w.asRead != "" && w.conflicts%2 == 0 && c.quarantined(i) {
		return w.asRead
	}
	return c.versionOf(i)
}

// notFound takes one. That another object stands there is as good as a witness.
func (c *Collector) notFound(i index, asOf time.Time, witnessed bool) {
	c.workOf(i).wanted = true
	c.wait(i, min(c.config.Recheck, c.config.AbsenceAfter)) // unless a witness tells more
	if p := c.kinds.all[c.at(i).kind].phase; p != synced && p != unwatched {
		return // what cannot be listed is not proven absent
	}
	r := c.absenceOf(i)
	r.asked = asOf
	if witnessed {
		c.counts(i, r)
		return
	}
	c.askWitness(c.at(i).kind)
}

func (c *Collector) absenceOf(i index) *absence {
	r := c.absent.absences[i]
	if r == nil {
		r = new(absence)
		c.absent.absences[i] = r
	}
	return r
}

// counts takes a NotFound that had a witness.
func (c *Collector) counts(i index, r *absence) {
	asked := r.asked
	r.asked, r.alone = time.Time{}, false
	switch {
	case r.first.IsZero():
		r.first = asked
	case asked.Sub(r.first) >= c.config.AbsenceAfter:
		c.vanish(i, proven)
		return
	}
	c.workOf(i).wanted = true
	c.wait(i, max(r.first.Add(c.config.AbsenceAfter).Sub(c.now), c.config.RetryMin))
}

// askWitness has a witness read for a kind, one at a time.
func (c *Collector) askWitness(id uint32) {
	if c.absent.asking[id] {
		return
	}
	i := c.candidate(id)
	if i == 0 {
		c.unwitnessed(id)
		return
	}
	o := c.coordinates(i)
	o.APIVersion, o.Resource = c.kinds.all[id].apiVersion, c.kinds.all[id].resource
	c.lastID++
	c.absent.asking[id] = true
	c.absent.witnesses[c.lastID] = witness{id, o.UID, i}
	c.out = append(c.out, gc.Action{ID: c.lastID, Verb: gc.Read, Object: o, Reason: WitnessWanted})
}

// candidate finds an object of a kind, in any version of it, that is known to be there.
func (c *Collector) candidate(id uint32) index {
	group, resource := c.kinds.all[id].group, c.kinds.all[id].resource
	last := c.absent.last[id]
	var first index
	for other := range c.kinds.all {
		if k := &c.kinds.all[other]; k.group != group || k.resource != resource || k.phase != synced && k.phase != unwatched {
			continue
		}
		passed := false
		for at, i := 0, c.kinds.all[other].head; at < c.kinds.all[other].size; at, i = at+1, c.at(i).next {
			if f := c.at(i).flags; f&observed == 0 || f&(terminating|restored) != 0 {
				continue
			}
			if first == 0 || passed {
				first = i
			}
			if passed || last == 0 {
				return first
			}
			passed = i == last
		}
	}
	return first
}

// unwitnessed is for NotFounds that prove nothing: they are asked for again later.
func (c *Collector) unwitnessed(id uint32) {
	for _, i := range c.waitingFor(id) {
		r := c.absent.absences[i]
		r.asked, r.alone = time.Time{}, true
	}
}

// waitingFor are the owners of a kind whose NotFound wants a witness.
func (c *Collector) waitingFor(id uint32) (list []index) {
	for _, i := range slices.Sorted(maps.Keys(c.absent.absences)) {
		if c.at(i).kind == id && !c.absent.absences[i].asked.IsZero() {
			list = append(list, i)
		}
	}
	return list
}

// witnessed takes the answer about a witness, if it is one.
func (c *Collector) witnessed(asOf time.Time, id uint64, a gc.Answer) bool {
	w, ok := c.absent.witnesses[id]
	if !ok {
		return false
	}
	delete(c.absent.witnesses, id)
	delete(c.absent.asking, w.kind)
	if a.State != gc.Exists || a.Object.UID != w.uid {
		c.absent.last[w.kind] = w.node
		c.unwitnessed(w.kind)
		return true
	}
	delete(c.absent.last, w.kind)
	for _, i := range c.waitingFor(w.kind) {
		switch r := c.absent.absences[i]; {
		case r == nil: // it went with another of the list
		case !r.asked.After(asOf) && asOf.Sub(r.asked) <= beside:
			c.counts(i, r)
		default:
			r.asked = time.Time{} // too long ago, or later: again
		}
	}
	return true
}

// forgetQuarantined takes a DELETED event of a type in quarantine: the first of two
// NotFounds. It concerns the object alone that it names, in all its versions.
func (c *Collector) forgetQuarantined(o gc.Object) {
	is := func(s index) bool {
		n := c.at(s)
		k := &c.kinds.all[n.kind]
		return k.aggregated && k.base == BaseKind(o.Kind) && k.group == gc.GroupOf(o.APIVersion) && n.name == o.Name && c.namespaces.all[n.namespace].text == o.Namespace
	}
	for s := c.chain(o.UID); s != 0; {
		if is(s) && c.at(s).flags&observed != 0 {
			c.vanish(s, doubted)
			s = c.chain(o.UID) // it may be another chain now
			continue
		}
		s = c.at(s).same
	}
	for s := c.chain(o.UID); s != 0; s = c.at(s).same {
		if !is(s) || c.at(s).flags&proven != 0 {
			continue
		}
		r := c.absenceOf(s)
		r.deleted = c.now
		if r.first.IsZero() {
			r.first = c.now
		}
		c.workOf(s).wanted = true
		c.wait(s, r.first.Add(c.config.AbsenceAfter).Sub(c.now))
	}
}

// distrust forgets what counted for a kind, in all its versions: who answers next may be
// another server.
func (c *Collector) distrust(id uint32) {
	group, base := c.kinds.all[id].group, c.kinds.all[id].base
	for i := range c.absent.absences {
		if k := &c.kinds.all[c.at(i).kind]; k.group == group && k.base == base {
			delete(c.absent.absences, i)
		}
	}
}

// Unproven is how many owners of a type seem to be gone, and are not believed to be yet:
// all of them, and those for which there is no witness.
func (c *Collector) Unproven(apiVersion, kind string) (all, alone int) {
	id, known := c.kinds.ids[kindName{apiVersion, kind}]
	for i, r := range c.absent.absences {
		if known && c.at(i).kind == id {
			if all++; r.alone {
				alone++
			}
		}
	}
	return all, alone
}

// whyUnknown says why nothing is known of one of an object's owners.
func (c *Collector) whyUnknown(i index) (why gc.Reason) {
	why = KeptUnknownOwner
	for _, e := range c.at(i).owners {
		switch r := c.absent.absences[e.owner]; {
		case r == nil || c.judge(i, e) != unknown:
		case r.alone:
			return KeptNoWitness
		default:
			why = KeptAbsenceYoung
		}
	}
	return why
}

// ofQuarantine says whether an object is of a type in quarantine.
func (c *Collector) ofQuarantine(o gc.Object) bool {
	id, known := c.kinds.ids[kindName{o.APIVersion, o.Kind}]
	return known && c.ofOthers(id)
}
