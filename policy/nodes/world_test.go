package nodes_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// thing is an object on the server: a Node, a Lease or a VolumeAttachment.
type thing struct {
	gc.Object
	t         gc.Type
	fields    any
	firstSeen time.Time // when the collector first observed it
	lived     time.Time // somebody wrote what a kubelet writes while one looked; zero: never
}

// world is a cluster, what the collector observed of it, and what it asked for. Its oracle looks at all of
// it whenever something is deleted.
type world struct {
	*rapid.T
	c       *nodes.Collector
	now     time.Time
	version int

	server, observed map[string]thing // by UID
	readable         map[string]time.Time
	machines         map[string]nodes.Machine // the truth
	held, still      bool                     // still: nothing goes wrong any more

	flying  map[uint64]gc.Action
	askedAt time.Time
	asked   uint64
	given   *nodes.Inventory // the last answer, to what was asked at askedAt
	lastOK  int
	seen    map[string]string    // Lease's versions from live reads, since then; by Node
	deleted map[string]time.Time // by UID
	count   int
}

const (
	staleAfter = time.Hour
	share      = 0.4
	minShare   = 0.5
	oldest     = 20 * time.Minute
)

func (w *world) pick(n int) int { return pick(w.T, n) }

// pick a number below n. Ranges of rapid prefer what is small.
func pick(t *rapid.T, n int) (v int) {
	for m := 1; m < n; m *= 2 {
		if v *= 2; rapid.Bool().Draw(t, "bit") {
			v++
		}
	}
	return v % n
}

func (w *world) write(x thing) {
	w.version++
	x.ResourceVersion = fmt.Sprint(w.version)
	if x.UID == "" {
		x.UID = fmt.Sprint("uid-", w.version)
	}
	w.server[x.UID] = x
}

// find what stands on the server under a name.
func find(in map[string]thing, kind, name string) (x thing, ok bool) {
	for _, uid := range slices.Sorted(maps.Keys(in)) {
		if y := in[uid]; y.Kind == kind && y.Name == name {
			return y, true
		}
	}
	return thing{}, false
}

// change something on the server.
func (w *world) change() {
	name := fmt.Sprint("n-", w.pick(5))
	n, is := find(w.server, "Node", name)
	switch w.pick(8) {
	case 0, 1, 2: // a Node comes, or changes
		if !is {
			n = thing{Object: gc.Object{APIVersion: "v1", Kind: "Node", Name: name}, t: nodeType, fields: nodes.Node{Created: w.now.Truncate(time.Second)}} // as objects have it
			if w.pick(3) > 0 {
				w.machines[name] = nodes.Machine{Name: name}
			}
		}
		before := n.fields.(nodes.Node)
		f := nodes.Node{Ready: w.pick(3) == 0, Since: before.Since, Created: before.Created, Heard: before.Heard, OutOfService: w.pick(3) == 0, Volumes: w.pick(6) == 0}
		if f.Ready != before.Ready || f.Since.IsZero() {
			f.Since = w.now
		}
		if w.pick(4) > 0 {
			f.Labels = []string{"x=y", "gone=yes"}
		}
		if f.Ready || w.pick(8) == 0 {
			f.Heard = w.clock().Truncate(time.Second) // as objects have it
		}
		n.fields = f
		w.write(n)
	case 3:
		if is {
			delete(w.server, n.UID)
		}
	case 4: // its Lease
		l, is := find(w.server, "Lease", name)
		if !is {
			l = thing{Object: gc.Object{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: "kube-node-lease", Name: name}, t: leaseType}
		} else if w.pick(3) == 0 {
			delete(w.server, l.UID)
			return
		}
		l.fields = leases.Lease{Expires: w.clock().Add(40 * time.Second)}
		w.write(l)
	case 5:
		if a, is := find(w.server, "VolumeAttachment", "a"); is {
			delete(w.server, a.UID)
		} else if w.pick(3) == 0 {
			w.write(thing{Object: gc.Object{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Name: "a"}, t: attachmentType, fields: nodes.Attachment{Node: name}})
		}
	case 6:
		delete(w.machines, name)
	case 7:
		w.machines[name] = nodes.Machine{Name: name}
	}
}

// clock of some kubelet, which may be behind by days.
func (w *world) clock() time.Time { return w.now.AddDate(0, 0, -2*w.pick(2)) }

// observe reports to the collector what of a type differs from what it observed before.
func (w *world) observe(t gc.Type) {
	for _, uid := range slices.Sorted(maps.Keys(w.observed)) {
		if x := w.observed[uid]; x.Kind == t.Kind && w.server[uid].UID == "" {
			delete(w.observed, uid)
			w.c.Forget(w.now, t, x.Object)
			w.moved(x)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(w.server)) {
		x, before := w.server[uid], w.observed[uid]
		if x.Kind != t.Kind || before.ResourceVersion == x.ResourceVersion {
			continue
		}
		if x.firstSeen = before.firstSeen; x.firstSeen.IsZero() {
			x.firstSeen = w.now
		}
		x.lived = w.sign(before, x)
		w.observed[uid] = x
		w.c.Observe(w.now, t, x.Object, x.fields)
		w.moved(x)
	}
}

// sign of life is what changes while one looks.
func (w *world) sign(before, x thing) time.Time {
	switch f := x.fields.(type) {
	case nodes.Node:
		if was, is := before.fields.(nodes.Node); is && !was.Heard.Equal(f.Heard) {
			return w.now
		}
	case leases.Lease:
		if before.UID != "" || !w.readable[leaseType.Kind].IsZero() {
			return w.now
		}
	}
	return before.lived
}

// moved forgets live reads of a Node's Lease that are older than what was observed.
func (w *world) moved(x thing) {
	if a, is := x.fields.(nodes.Attachment); is {
		delete(w.seen, a.Node)
	}
	delete(w.seen, x.Name)
}

// list reports all of a type.
func (w *world) list(t gc.Type) {
	w.c.Listing(w.now, t)
	w.observe(t)
	for _, uid := range slices.Sorted(maps.Keys(w.observed)) {
		if x := w.observed[uid]; x.Kind == t.Kind {
			w.c.Observe(w.now, t, x.Object, x.fields)
		}
	}
	w.c.Synced(w.now, t)
	if w.readable[t.Kind].IsZero() {
		w.readable[t.Kind] = w.now
	}
}

var types = []gc.Type{nodeType, leaseType, attachmentType}

func (w *world) read() {
	t := types[w.pick(3)]
	switch {
	case !w.readable[t.Kind].IsZero() && w.pick(40) == 0:
		w.c.Unreadable(w.now, t)
		w.readable[t.Kind] = time.Time{}
	case w.pick(300) == 0:
		w.c.Restored(w.now)
		clear(w.observed)
		clear(w.seen)
		clear(w.readable)
		w.given, w.askedAt, w.asked = nil, time.Time{}, 0
	case w.readable[t.Kind].IsZero():
		w.list(t)
	case w.pick(20) == 0:
		w.list(t)
	default:
		w.observe(t)
	}
}

// answer something that was asked.
func (w *world) answer() {
	if len(w.flying) == 0 {
		return
	}
	id := slices.Sorted(maps.Keys(w.flying))[w.pick(len(w.flying))]
	a := w.flying[id]
	delete(w.flying, id)
	switch a.Verb {
	case gc.Inventory:
		list := w.inventory()
		if w.asked == id {
			if w.given = list; list != nil && w.believable() {
				w.lastOK = len(list.Machines)
			} else {
				w.given = nil
			}
		}
		w.c.Surveyed(w.now, id, list)
	case gc.Verify:
		l, is := find(w.server, "Lease", a.Object.Name)
		answer := gc.Answer{State: gc.Absent}
		if is {
			answer = gc.Answer{State: gc.Exists, Object: l.Object}
		}
		if !w.still && w.pick(8) == 0 {
			answer = gc.Answer{State: gc.Unknown}
		} else {
			w.seen[a.Object.Name] = l.UID + l.ResourceVersion + w.askedAt.String()
		}
		w.c.Answered(w.now, w.now, id, answer)
	case gc.Delete:
		result := gc.Done
		if !w.still {
			result = []gc.Result{gc.Done, gc.Done, gc.Failed, gc.Forbidden, gc.Withheld}[w.pick(5)]
		}
		if n, is := w.server[a.Object.UID]; !is {
			result = gc.Gone
		} else if n.ResourceVersion != a.ResourceVersion {
			result = gc.Conflict
		}
		if result == gc.Done {
			delete(w.server, a.Object.UID)
			w.count++
		} else if result != gc.Failed {
			delete(w.deleted, a.Object.UID)
		}
		w.c.Finished(w.now, id, result)
	}
}

// inventory is the answer to a request for machines: mostly the truth.
func (w *world) inventory() *nodes.Inventory {
	list := &nodes.Inventory{Time: w.now.Add(-time.Duration(w.pick(300)) * time.Second)}
	for _, name := range slices.Sorted(maps.Keys(w.machines)) {
		list.Machines = append(list.Machines, w.machines[name])
	}
	if w.still {
		return list
	}
	switch w.pick(12) {
	case 0:
		return nil
	case 1:
		list.Machines = nil
	case 2:
		list.Time = w.now.Add(-oldest - time.Second)
	case 3:
		list.Time = w.now.Add(nodes.Ahead + time.Second)
	case 4:
		if n := len(list.Machines); n > 0 {
			list.Machines = slices.Delete(list.Machines, w.pick(n), n)
		}
	}
	return list
}
