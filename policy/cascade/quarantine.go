package cascade

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Types of other API servers (Type.Aggregated) are in quarantine. Their reports affect no
// other type, and that an object is absent is believed slowly.
//
//   - An owner is absent after two NotFounds, at least Config.AbsenceAfter apart, each with
//     a witness: another object of the type, known to exist, that is read right after the
//     NotFound and found. Storage that answers NotFound to every read finds no witness. A
//     DELETED event counts as the first NotFound. Absence from a list does not count. Until
//     then the owner is unknown.
//   - The stream wins: an object that a list or a watch reported exists, whatever a live
//     read returns. Before an action, a live read must match the stream.
//   - resourceVersions are compared for equality only.

// absence is what is known of an owner that seems to be gone.
type absence struct {
	first   time.Time // the first NotFound that counts, or DELETED
	asked   time.Time // of the NotFound that needs a witness; zero: none
	deleted time.Time // a DELETED event
	alone   bool      // the last NotFound had no witness
}

// witness is a live read that shows whether a server answers truly.
type witness struct {
	kind uint32 // of the owners it is read for
	uid  string
	node index
}

// beside is the maximum time between a NotFound and the read of its witness.
const beside = 10 * time.Second

// quarantine is the state of the types in quarantine.
type quarantine struct {
	absences  map[index]*absence
	witnesses map[uint64]witness // by the read's ID
	asking    map[uint32]bool    // kinds with a witness read in flight
	last      map[uint32]index   // the last witness that failed: the next one is searched after it
}

func (c *Collector) quarantined(i index) bool { return c.ofOthers(c.at(i).kind) }

func (c *Collector) ofOthers(kind uint32) bool {
	return c.kinds.all[kind].aggregated && !c.config.TrustAggregated
}

// streamed reports whether an object was seen and a list or a watch reports it.
func (c *Collector) streamed(i index) bool {
	n := c.at(i)
	return n.flags&observed != 0 && c.kinds.all[n.kind].phase != unwatched
}

// distrusted handles a live read of an object in quarantine. If it returns true, the answer
// is used up and must not be applied to the graph.
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

// agrees reports whether a live read returned the same object as the stream, except for the
// version.
func (c *Collector) agrees(i index, o gc.Object) bool {
	n := c.at(i)
	return c.sameOwners(i, o.Owners) && finalizerSum(o.Finalizers) == n.finalizers && o.Terminating == (n.flags&terminating != 0)
}

// precondition is the resourceVersion that a request demands. For types in quarantine, live
// reads and the stream may report different versions permanently. So each conflict switches
// to the other of the two.
func (c *Collector) precondition(i index) string {
	if w := c.work[i]; w != nil && w.asRead != "" && w.conflicts%2 == 0 && c.quarantined(i) {
		return w.asRead
	}
	return c.versionOf(i)
}

// notFound handles a NotFound. witnessed is true if another object has the name, which
// counts as a witness.
func (c *Collector) notFound(i index, asOf time.Time, witnessed bool) {
	c.workOf(i).wanted = true
	c.wait(i, min(c.config.Recheck, c.config.AbsenceAfter)) // unless a witness comes earlier
	if p := c.kinds.all[c.at(i).kind].phase; p != synced && p != unwatched {
		return // no proof without a readable type
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

// counts handles a NotFound that had a witness.
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

// askWitness requests the read of a witness for a kind, one at a time.
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

// candidate finds an object of a kind, in any version of it, that is known to exist. The
// search continues after the last witness that failed.
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

// unwitnessed handles NotFounds without a witness: they prove nothing, and the reads are
// repeated later.
func (c *Collector) unwitnessed(id uint32) {
	for _, i := range c.waitingFor(id) {
		r := c.absent.absences[i]
		r.asked, r.alone = time.Time{}, true
	}
}

// waitingFor returns the owners of a kind whose NotFound needs a witness.
func (c *Collector) waitingFor(id uint32) (list []index) {
	for _, i := range slices.Sorted(maps.Keys(c.absent.absences)) {
		if c.at(i).kind == id && !c.absent.absences[i].asked.IsZero() {
			list = append(list, i)
		}
	}
	return list
}

// witnessed handles the answer to a witness read. It reports whether the answer was one.
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
		case r == nil: // removed with an earlier owner of the list
		case !r.asked.After(asOf) && asOf.Sub(r.asked) <= beside:
			c.counts(i, r)
		default:
			r.asked = time.Time{} // the NotFound is too old, or newer than the witness: read again
		}
	}
	return true
}

// forgetQuarantined handles a DELETED event of a type in quarantine. It counts as the first
// of two NotFounds, and only for the object that it names, in all its versions.
func (c *Collector) forgetQuarantined(o gc.Object) {
	is := func(s index) bool {
		n := c.at(s)
		k := &c.kinds.all[n.kind]
		return k.aggregated && k.base == BaseKind(o.Kind) && k.group == gc.GroupOf(o.APIVersion) && n.name == o.Name && c.namespaces.all[n.namespace].text == o.Namespace
	}
	for s := c.chain(o.UID); s != 0; {
		if is(s) && c.at(s).flags&observed != 0 {
			c.vanish(s, doubted)
			s = c.chain(o.UID) // vanish may have changed the chain
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

// distrust drops the NotFounds that counted for a kind, in all its versions: the next
// answers may come from another server.
func (c *Collector) distrust(id uint32) {
	group, base := c.kinds.all[id].group, c.kinds.all[id].base
	for i := range c.absent.absences {
		if k := &c.kinds.all[c.at(i).kind]; k.group == group && k.base == base {
			delete(c.absent.absences, i)
		}
	}
}

// Unproven counts the owners of a type that seem to be gone but are not proven to be: all
// of them, and those whose last NotFound had no witness.
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

// whyUnknown returns why an owner of an object is unknown.
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

// ofQuarantine reports whether an object is of a type in quarantine.
func (c *Collector) ofQuarantine(o gc.Object) bool {
	id, known := c.kinds.ids[kindName{o.APIVersion, o.Kind}]
	return known && c.ofOthers(id)
}
