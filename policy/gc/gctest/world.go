// Package gctest tests collectors against a model of an API server with random behaviour:
// objects change, are deleted and come back, lists begin and break off, etcd is restored,
// requests fail. At every step the expected actions and their times are computed from
// scratch.
package gctest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Object is an object on the server.
type Object struct {
	gc.Object
	Fields any
}

// World is the server, and what the collector should know of it.
type World struct {
	Collector gc.Interface
	Name      gc.Collector
	Type      gc.Type
	Policy    gc.Policy // of the collector's deletes
	// Pick returns a number below n.
	Pick       func(n int) int
	Namespaces []string // of objects, if the type has any
	Fatalf     func(format string, args ...any)
	// Make sets the fields of an object that is created or changed. Its name, UID and
	// version are set already.
	Make func(o *Object, now time.Time)
	// Oracle returns why a reported object is to be deleted, and when, or why it is kept.
	// current is whether the type can be read now.
	Oracle func(o Object, now time.Time, current bool) (gc.Reason, time.Time)
	// Configure gives the collector another configuration.
	Configure func(now time.Time)
	Now       time.Time
	Beside    Beside

	server   map[string]Object
	observed map[string]Object
	memory   map[string]*memory
	flying   map[uint64]flight
	version  int
	current  bool     // the type was listed, and can be read since
	watching bool     // a watch reports changes at once
	page     []Object // the rest of the current list
	listed   map[string]bool
	listing  bool
	held     bool
	Deleted  int // objects that the collector deleted
}

// Beside is the behaviour of a collector of more than its type. All fields may be empty.
type Beside struct {
	// OneName is a namespace: an object reported there drops the one that had its name.
	OneName  string
	Step     func()                                // something happens to objects of other types
	Restored func()                                // etcd was restored
	Kept     func() int                            // how many objects of other types are kept
	Changed  func(uid string)                      // an object was reported in another version, or forgotten
	Act      func(o Object, a gc.Action) gc.Action // the expected action, if not just the Delete a
	Read     func(a gc.Action) gc.Answer           // a live read
	// Answered gets the answer of a live read about an object. overtaken is whether the
	// object has changed since the read was sent.
	Answered func(uid string, sent time.Time, overtaken bool, r gc.Answer)
}

// memory is what a collector should remember of its requests for an object.
type memory struct {
	after    time.Time
	failures int
	withheld bool
	asked    bool
	last     gc.Result
	first    time.Time // when it was first reported
}

type flight struct {
	gc.Action
	of        string // UID of the object that the action was emitted for
	sent      time.Time
	version   string // of that object at that time
	forgotten bool
	released  bool // since it was sent
}

// First returns when an object was first reported to the collector.
func (w *World) First(uid string) time.Time { return w.memory[uid].first }

// Known reports whether the collector knows an object: it was reported, and is not
// forgotten.
func (w *World) Known(uid string) bool { return w.memory[uid] != nil }

// Step does one thing, and checks the collector.
func (w *World) Step() {
	if w.server == nil {
		w.server, w.observed, w.flying, w.memory = map[string]Object{}, map[string]Object{}, map[uint64]flight{}, map[string]*memory{}
	}
	switch n := w.Pick(32); {
	case n < 3:
		w.create()
	case n < 5:
		w.change()
	case n < 7 && w.Beside.Step != nil:
		w.Beside.Step()
	case n < 10:
		w.pass()
	case n < 15:
		w.ready()
	case n < 20:
		w.finish()
	case n < 28:
		w.list()
	case n == 28:
		w.seldom(w.vanish, w.unreadable, w.restore, w.unreadable)
	case n == 29:
		w.hold()
	case n == 30:
		w.release()
	case n == 31:
		w.Configure(w.Now)
	}
	w.check()
}

func (w *World) seldom(steps ...func()) { steps[w.Pick(len(steps))]() }

func (w *World) create() {
	uid := fmt.Sprint("uid-", w.version)
	o := Object{Object: gc.Object{APIVersion: w.Type.APIVersion, Kind: w.Type.Kind, Name: fmt.Sprint("o-", w.Pick(6)), UID: uid}}
	if w.Type.Namespaced {
		o.Namespace = w.Namespaces[w.Pick(len(w.Namespaces))]
	}
	for _, other := range w.server {
		if other.Namespace == o.Namespace && other.Name == o.Name {
			delete(w.server, other.UID) // one object at a time has the name
			w.catchUp()
			break
		}
	}
	w.write(o)
}

func (w *World) write(o Object) {
	w.version++
	o.ResourceVersion = fmt.Sprint(w.version)
	w.Make(&o, w.Now)
	w.server[o.UID] = o
	w.catchUp()
}

// some returns any object of the server.
func (w *World) some() (o Object, ok bool) {
	if len(w.server) == 0 {
		return o, false
	}
	return w.server[slices.Sorted(maps.Keys(w.server))[w.Pick(len(w.server))]], true
}

func (w *World) change() {
	if o, ok := w.some(); ok {
		w.write(o)
	}
}

func (w *World) vanish() {
	if o, ok := w.some(); ok {
		delete(w.server, o.UID)
		w.catchUp()
	}
}

func (w *World) pass() {
	most := []time.Duration{time.Second, time.Minute, 20 * time.Hour}[w.Pick(3)]
	w.Now = w.Now.Add(time.Duration(w.Pick(1000)) * most / 1000)
	w.Collector.Ready(w.Now, 0) // passes the time
}

// catchUp reports what has changed, as a watch does.
func (w *World) catchUp() {
	if !w.watching {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(w.observed)) {
		if _, is := w.server[uid]; !is {
			w.Collector.Forget(w.Now, w.Type, w.observed[uid].Object)
			w.forget(uid)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(w.server)) {
		if o := w.server[uid]; w.observed[uid].ResourceVersion != o.ResourceVersion {
			w.observe(o)
		}
	}
}

func (w *World) observe(o Object) {
	if w.observed[o.UID].ResourceVersion != o.ResourceVersion {
		m := &memory{first: w.Now}
		if before := w.memory[o.UID]; before != nil {
			m.asked, m.last, m.first = before.asked, before.last, before.first
		}
		w.memory[o.UID] = m
		w.changed(o.UID)
	}
	for uid, other := range w.observed {
		if uid != o.UID && other.Namespace == o.Namespace && o.Namespace == w.Beside.OneName && o.Namespace != "" && other.Name == o.Name {
			w.forget(uid)
			break
		}
	}
	w.observed[o.UID] = o
	w.Collector.Observe(w.Now, w.Type, o.Object, o.Fields)
}

func (w *World) changed(uid string) {
	if w.Beside.Changed != nil {
		w.Beside.Changed(uid)
	}
}

func (w *World) forget(uid string) {
	delete(w.observed, uid)
	delete(w.memory, uid)
	w.changed(uid)
	for id, f := range w.flying {
		if f.of == uid {
			f.forgotten = true
			w.flying[id] = f
		}
	}
}

// list begins a list, or continues one.
func (w *World) list() {
	switch {
	case !w.listing && w.current && w.Pick(8) > 0: // it is watched
	case !w.listing:
		w.listing, w.watching, w.listed, w.page = true, false, map[string]bool{}, nil
		for _, uid := range slices.Sorted(maps.Keys(w.server)) {
			w.page = append(w.page, w.server[uid])
		}
		w.Collector.Listing(w.Now, w.Type)
	case len(w.page) > 0:
		n := 1 + w.Pick(len(w.page))
		for _, o := range w.page[:n] {
			w.listed[o.UID] = true
			w.observe(o)
		}
		w.page = w.page[n:]
	default:
		w.Collector.Synced(w.Now, w.Type)
		for _, uid := range slices.Sorted(maps.Keys(w.observed)) {
			if !w.listed[uid] {
				w.forget(uid)
			}
		}
		w.listing, w.watching, w.current = false, true, true
		w.catchUp()
	}
}

func (w *World) unreadable() {
	w.Collector.Unreadable(w.Now, w.Type)
	w.listing, w.watching, w.current = false, false, false
}

// restore restores an earlier state: some objects are in versions that were never reported.
func (w *World) restore() {
	w.listing, w.watching, w.current = false, false, false
	for _, uid := range slices.Sorted(maps.Keys(w.observed)) {
		w.forget(uid)
	}
	w.Collector.Restored(w.Now)
	if w.Beside.Restored != nil {
		w.Beside.Restored()
	}
	for _, uid := range slices.Sorted(maps.Keys(w.server)) {
		o := w.server[uid]
		switch w.Pick(3) {
		case 0:
			delete(w.server, uid)
		case 1:
			w.write(o)
		}
	}
}

func (w *World) hold() {
	w.held = w.Pick(2) == 0
	w.Collector.Hold(w.Now, w.held)
}

func (w *World) release() {
	w.Collector.Release(w.Now)
	for _, m := range w.memory {
		if m.withheld {
			m.withheld, m.after = false, time.Time{}
		}
	}
	for id, f := range w.flying {
		f.released = true
		w.flying[id] = f
	}
}
