package oracle

import (
	"maps"
	"sync"
	"time"
)

// Kind is a type as a reference names it.
type Kind struct{ APIVersion, Kind string }

// Config says what there is to judge.
type Config struct {
	// Kinds says of each version of each type that is served, at least now and then,
	// whether its objects have namespaces. All others are unknown to everybody.
	Kinds map[Kind]bool

	// Judged says whether an object is one of those that only the clients, the
	// namespace controller and the collector change.
	Judged func(*Object) bool

	// Outside says which types other API servers serve; nil: none.
	Outside func(Kind) bool

	// Race is how long an owner still counts as it was before another DELETE.
	Race time.Duration

	// Unseen says whether the collector may not have seen at a time an object that was
	// written at another; nil: it sees all.
	Unseen func(x *Object, written, now time.Time) bool
}

// Counts are what the collector did.
type Counts struct {
	Deletions int            // decided by it
	Changes   int            // references and finalizers taken away
	Ended     int            // of these, by a collector of other garbage
	Collected map[string]int // the same, by kind
	Raced     int            // excused by Config.Race
	Unseen    int            // excused by Config.Unseen
}

// Oracle holds the state of etcd, and what happened to each object. Its methods may
// be called side by side.
type Oracle struct {
	config Config
	scopes map[[2]string]bool // group and kind: namespaced

	mu         sync.Mutex
	epoch      int
	rev        int64
	objects    map[string]*Object            // by key
	places     map[place]*Object             //
	uids       map[string]*Object            // that are there
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

// tombstone is what is known of an object that was deleted.
type tombstone struct {
	rev      int64
	orphaned bool // by orphaning: its dependents are to live
	unclear  bool // orphaned in an epoch that was lost, or by several DELETEs: both is right
}

// intent is what clients said of a UID.
type intent struct {
	deletes int
	policy  string
	lifted  bool
	again   bool // a DELETE of what was being deleted otherwise
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

// Deleting announces a DELETE before it is sent. It stays announced until Refused,
// because one that got no answer may have been carried out, or will be. The same
// DELETE may be announced once more, for another attempt.
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

// Refused takes an announcement back: the API server said that nothing was done.
func (o *Oracle) Refused(uid string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if in := o.intent(uid); in.deletes > 0 {
		in.deletes--
	}
}

// Lifting announces that the finalizers of others are taken off.
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

// Passed is a revision of something that is not judged.
func (o *Oracle) Passed(rev int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rev = rev
}

// Put is an object written at a revision.
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

// Delete is an object removed at a revision.
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

// bury an object that is gone.
func (o *Oracle) bury(x *Object, rev int64) {
	again := o.intents[x.UID] != nil && o.intents[x.UID].again
	o.tombstones[x.UID] = tombstone{rev: rev, orphaned: x.orphaning() && !again && !o.emptied(x), unclear: again}
	o.unplace(x)
	delete(o.objects, x.Key)
	delete(o.places, x.place())
	delete(o.uids, x.UID)
}

// by says who deletes an object, for its history.
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

// emptied says whether the namespace controller may delete an object.
func (o *Oracle) emptied(x *Object) bool {
	n := o.places[place{kind: "Namespace", name: x.Namespace}]
	return x.Namespace != "" && (n == nil || n.Terminating)
}

// place puts a version where the former one was.
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

// index an object as a dependent of an owner, or by a name.
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

// UIDs are those of the objects that are there, by key.
func (o *Oracle) UIDs() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	uids := make(map[string]string, len(o.objects))
	for key, x := range o.objects {
		uids[key] = x.UID
	}
	return uids
}

// Revision is the last one that was told.
func (o *Oracle) Revision() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rev
}

// Counts of what the collector did until now.
func (o *Oracle) Counts() Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := o.counts
	counts.Collected = maps.Clone(counts.Collected)
	return counts
}
