package discovery

import (
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// discoveryDelays are when types are discovered after a definition was added, changed or
// deleted: what is served lags behind what was written, on one API server more than on
// another.
var discoveryDelays = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second, 10 * time.Second, 30 * time.Second}

// What leaves UID and generation of a definition as they were (its status, an APIService,
// which has no generation, a type that cannot be read any more) shares a few
// discoveries: somebody may write it all the time.
const (
	unversionedBurst    = 5
	UnversionedInterval = time.Minute
	unversionedDelay    = time.Second // several are one
)

// Definitions are the objects that define types, and the discoveries that they want. They are not
// safe for concurrent use.
type Definitions struct {
	known   map[string]identity // by name: those of CRDs and APIServices differ
	pending map[string]*pendingDefinition
	limiter *rate.Limiter
	due     time.Time // a discovery because of what was restless, or missing; zero: none
}

type identity struct {
	uid        string
	generation int64
}

// pendingDefinition is what one UID and generation may cost.
type pendingDefinition struct {
	seen    time.Time
	next    int  // index into discoveryDelays
	added   bool // done once discovery has it
	deleted bool // once it is not
}

// NewDefinitions makes an empty one.
func NewDefinitions() *Definitions {
	return &Definitions{known: map[string]identity{}, pending: map[string]*pendingDefinition{}, limiter: rate.NewLimiter(rate.Every(UnversionedInterval), unversionedBurst)}
}

// APIServiceOf is the name of the APIService of a group version.
func APIServiceOf(groupVersion string) string {
	group, version, ok := strings.Cut(groupVersion, "/")
	if !ok {
		return groupVersion + "."
	}
	return version + "." + group
}

// Observe takes a definition from a list or a watch. Discovery is polled until it shows
// the definition; only discoveries that began after it was seen count.
func (d *Definitions) Observe(now time.Time, e *metadata.Event) {
	o := &e.Object
	was, known := d.known[o.Name]
	if known && was.uid == o.UID && was.generation == e.Generation {
		d.Changed(now)
		return
	}
	name := strings.Clone(o.Name)
	d.known[name] = identity{strings.Clone(o.UID), e.Generation}
	d.pending[name] = &pendingDefinition{seen: now, added: !known || was.uid != o.UID}
}

// Forget takes a definition that was deleted.
func (d *Definitions) Forget(now time.Time, name string) {
	name = strings.Clone(name)
	delete(d.known, name)
	d.pending[name] = &pendingDefinition{seen: now, deleted: true}
}

// Changed wants a discovery for what has no generation to tell by.
func (d *Definitions) Changed(now time.Time) {
	if d.due.IsZero() {
		d.due = now.Add(max(unversionedDelay, d.limiter.ReserveN(now, 1).DelayFrom(now)))
	}
}

// DeletedBefore says whether a definition was seen to be deleted before some moment.
func (d *Definitions) DeletedBefore(name string, asked time.Time) bool {
	s := d.pending[name]
	return s != nil && s.deleted && s.seen.Before(asked)
}

// Pending says whether a definition waits for discovery to show it.
func (d *Definitions) Pending() bool { return len(d.pending) > 0 }

// Discovered notes a discovery: when it was asked for, and which definitions it shows
// at work. Some type is missing if another discovery is wanted again after a while.
func (d *Definitions) Discovered(asked time.Time, again time.Duration, served map[string]bool) {
	if !d.due.After(asked) {
		d.due = time.Time{}
	}
	if at := asked.Add(again); again > 0 && (d.due.IsZero() || d.due.After(at)) {
		d.due = at
	}
	for name, s := range d.pending {
		if !s.seen.Before(asked) {
			continue
		}
		for s.next < len(discoveryDelays) && !s.seen.Add(discoveryDelays[s.next]).After(asked) {
			s.next++
		}
		if s.next == len(discoveryDelays) || s.added && served[name] || s.deleted && !served[name] {
			delete(d.pending, name)
		}
	}
}

// Next is when a discovery is wanted; zero: none is.
func (d *Definitions) Next() time.Time {
	at := d.due
	for _, s := range d.pending {
		if t := s.seen.Add(discoveryDelays[s.next]); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at
}
