package oracle

import (
	"maps"
	"sync"
	"time"
)

// Kind is a type as a reference names it.
type Kind struct{ APIVersion, Kind string }

// Config configures an [Oracle].
type Config struct {
	// Kinds has each version of each type that is served, at least now and then, and whether its
	// objects have namespaces. All other versions are unknown to the API servers.
	Kinds map[Kind]bool

	// Judged reports whether an object is one of those that only the clients, the namespace
	// controller and the collector change.
	Judged func(*Object) bool

	// Outside reports whether another API server serves a type; nil: none does.
	Outside func(Kind) bool

	// Race is how long an owner still counts as it was before another DELETE.
	Race time.Duration

	// Unseen reports whether the collector may, at now, not have seen an object that was written at
	// the time written; nil: it sees all.
	Unseen func(x *Object, written, now time.Time) bool
}

// Counts counts what the collector did.
type Counts struct {
	Deletions int            // decided by it
	Changes   int            // references and finalizers removed
	Ended     int            // deletions by a collector of other garbage
	Collected map[string]int // the same, by kind
	Raced     int            // excused by Config.Race
	Unseen    int            // excused by Config.Unseen
}

// Oracle holds the state of etcd, and what happened to each object. Its methods may be called
// concurrently.
type Oracle struct {
	config Config
	scopes map[[2]string]bool // group and kind: namespaced

	mu         sync.Mutex
	epoch      int
	rev        int64
	objects    map[string]*Object            // by key
	places     map[place]*Object             // by place
	uids       map[string]*Object            // of objects that exist
	dependents map[string]map[string]*Object // by owner's UID, or one of Object.names, by key
	tombstones map[string]tombstone          // by UID
	waited     map[string]time.Time          // UIDs: until when they were waiting or orphaning
	absent     map[string]time.Time          // Nodes: since when they are gone
	left       map[string]*Object            // by UID: Pods that ended, as they were last
	intents    map[string]*intent            // by UID
	histories  map[string][]entry            // by UID
	violations []Violation
	counts     Counts
}

// tombstone is what is known of a deleted object.
type tombstone struct {
	rev      int64
	orphaned bool // by orphaning: its dependents stay
	unclear  bool // orphaned in a lost epoch, or by several DELETEs: either end of its dependents is right
}

// intent is what clients announced for a UID.
type intent struct {
	deletes int
	policy  string
	lifted  bool
	again   bool // a DELETE of an object that was being deleted otherwise
}

// New returns an oracle of an empty etcd.
func New(c Config) *Oracle {
	o := &Oracle{config: c, scopes: map[[2]string]bool{}, tombstones: map[string]tombstone{}, waited: map[string]time.Time{}, histories: map[string][]entry{},
		absent: map[string]time.Time{}, left: map[string]*Object{}, counts: Counts{Collected: map[string]int{}}}
	for k, namespaced := range c.Kinds {
		o.scopes[[2]string{groupOf(k.APIVersion), k.Kind}] = namespaced
	}
	o.clear()
	return o
}

func (o *Oracle) clear() {
	o.objects, o.places, o.uids = map[string]*Object{}, map[place]*Object{}, map[string]*Object{}
	o.dependents, o.intents = map[string]map[string]*Object{}, map[string]*intent{}
}

// Deleting announces a DELETE before it is sent. It stays announced until Refused, because a DELETE
// without an answer may have been carried out, or will be. The same DELETE may be announced once
// more, for another attempt.
func (o *Oracle) Deleting(uid, policy string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	in, x := o.intent(uid), o.uids[uid]
	if in.deletes > 0 && in.policy != policy || in.deletes == 0 && x != nil && x.Terminating {
		in.again = true
	}
	in.deletes++
	in.policy = policy
}

// Refused withdraws an announcement: the API server answered that nothing was done.
func (o *Oracle) Refused(uid string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if in := o.intent(uid); in.deletes > 0 {
		in.deletes--
	}
}

// Lifting announces that the foreign finalizers are removed.
func (o *Oracle) Lifting(uid string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.intent(uid).lifted = true
}

func (o *Oracle) intent(uid string) *intent {
	if o.intents[uid] == nil {
		o.intents[uid] = &intent{}
	}
	return o.intents[uid]
}

// Restore begins a new epoch with what etcd has at a revision.
func (o *Oracle) Restore(rev int64, at time.Time, objects []*Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.uids
	o.clear()
	o.epoch++
	for uid, x := range before {
		o.leave(x, at)
		if x.Outside {
			o.place(x, nil, at)
			delete(before, uid)
		}
	}
	for uid, g := range o.tombstones {
		if g.rev > rev {
			o.tombstones[uid] = tombstone{unclear: g.unclear || g.orphaned}
		}
	}
	for _, x := range objects {
		o.place(x, nil, at)
		delete(o.tombstones, x.UID)
		o.remember(x, rev, at, "restored")
		delete(before, x.UID)
	}
	for uid, x := range before {
		o.remember(x, rev, at, "lost by the restore")
		o.tombstones[uid] = tombstone{unclear: x.orphaning()}
	}
	o.rev = rev
}

// Passed records a revision of something that is not judged.
func (o *Oracle) Passed(rev int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rev = rev
}

// Put records that an object was written at a revision.
func (o *Oracle) Put(rev int64, at time.Time, x *Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rev = rev
	old := o.objects[x.Key]
	if old != nil && old.UID != x.UID {
		old = nil
	}
	if old != nil && o.judged(x) {
		o.judgeChange(rev, at, old, x)
		o.leave(old, at)
	}
	o.place(x, old, at)
	what := "changed"
	switch {
	case old == nil:
		what = "created"
	case x.Terminating && !old.Terminating:
		what = "being deleted" + o.by(x)
	}
	o.remember(x, rev, at, what)
}

// Delete records that an object was removed at a revision.
func (o *Oracle) Delete(rev int64, at time.Time, key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rev = rev
	x := o.objects[key]
	if x == nil {
		return
	}
	if o.judged(x) {
		o.judgeEnd(rev, at, x)
	}
	o.remember(x, rev, at, "gone"+o.by(x))
	o.leave(x, at)
	o.bury(x, rev)
}

// bury replaces an object that is gone with a tombstone.
func (o *Oracle) bury(x *Object, rev int64) {
	again := o.intents[x.UID] != nil && o.intents[x.UID].again
	o.tombstones[x.UID] = tombstone{rev: rev, orphaned: x.orphaning() && !again && !o.emptied(x), unclear: again}
	o.unplace(x)
	delete(o.objects, x.Key)
	delete(o.places, x.place())
	delete(o.uids, x.UID)
}

// by returns who deletes an object, for its history.
func (o *Oracle) by(x *Object) string {
	switch {
	case o.intents[x.UID] != nil && o.intents[x.UID].deletes > 0:
		return " by a client"
	case o.emptied(x):
		return " with its namespace"
	case x.Terminating && len(x.Finalizers) > 0:
		return " after its last finalizer"
	case o.judged(x):
		return " by the collector"
	}
	return ""
}

func (o *Oracle) judged(x *Object) bool { return o.config.Judged(x) }

// emptied reports whether the namespace controller may delete an object.
func (o *Oracle) emptied(x *Object) bool {
	n := o.places[place{kind: "Namespace", name: x.Namespace}]
	return x.Namespace != "" && (n == nil || n.Terminating)
}

// place stores a version of an object where the former one was.
func (o *Oracle) place(x, old *Object, at time.Time) {
	if old == nil {
		old = o.objects[x.Key]
	}
	if old != nil {
		o.unplace(old)
		if old.UID != x.UID {
			delete(o.uids, old.UID)
		}
		if old.waiting() && !x.waiting() || old.orphaning() && !x.orphaning() {
			o.waited[x.UID] = at
		}
	}
	o.objects[x.Key], o.places[x.place()], o.uids[x.UID] = x, x, x
	if x.written = at; x.Kind == "Node" {
		delete(o.absent, x.Name)
	}
	for _, name := range x.names() {
		o.index(name, x)
	}
	for _, r := range x.Owners {
		o.index(r.UID, x)
		if r.Block {
			if x.since == nil {
				x.since = map[string]time.Time{}
			}
			x.since[r.UID] = at
			if old != nil && old.UID == x.UID {
				if since, ok := old.since[r.UID]; ok {
					x.since[r.UID] = since
				}
			}
		}
	}
}

// index records an object as a dependent of an owner, or under a name.
func (o *Oracle) index(of string, x *Object) {
	if o.dependents[of] == nil {
		o.dependents[of] = map[string]*Object{}
	}
	o.dependents[of][x.Key] = x
}

func (o *Oracle) unplace(x *Object) {
	for _, name := range x.names() {
		delete(o.dependents[name], x.Key)
	}
	for _, r := range x.Owners {
		delete(o.dependents[r.UID], x.Key)
	}
}

// UIDs returns the UIDs of the objects that exist, by key.
func (o *Oracle) UIDs() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	uids := make(map[string]string, len(o.objects))
	for key, x := range o.objects {
		uids[key] = x.UID
	}
	return uids
}

// Revision returns the latest recorded revision.
func (o *Oracle) Revision() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rev
}

// Counts returns what the collector has done so far.
func (o *Oracle) Counts() Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := o.counts
	counts.Collected = maps.Clone(counts.Collected)
	return counts
}
