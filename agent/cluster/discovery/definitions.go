package discovery

import (
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// discoveryDelays are the delays of discoveries after a definition was added, changed or deleted.
// What an API server serves lags behind what was written, on some API servers more than on others.
var discoveryDelays = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second, 10 * time.Second, 30 * time.Second}

// Changes that leave UID and generation of a definition as they were share a few discoveries,
// because a client may make them all the time. They are changes of its status, changes of an
// APIService (which has no generation), and types that became unreadable.
const (
	unversionedBurst    = 5
	UnversionedInterval = time.Minute
	unversionedDelay    = time.Second // changes within it share one discovery
)

// Definitions tracks the objects that define types, and the discoveries that are due because of
// them. It is not safe for concurrent use.
type Definitions struct {
	known   map[string]identity // by name; no CRD is named like an APIService
	pending map[string]*pendingDefinition
	limiter *rate.Limiter
	due     time.Time // the next discovery for unversioned changes or missing types; zero: none
}

type identity struct {
	uid        string
	generation int64
}

// pendingDefinition is a change of a definition that discovery does not show yet. It causes at most
// one discovery for each of discoveryDelays.
type pendingDefinition struct {
	seen    time.Time
	next    int  // index into discoveryDelays
	added   bool // done once discovery shows it
	deleted bool // done once discovery does not
}

// NewDefinitions returns an empty Definitions.
func NewDefinitions() *Definitions {
	return &Definitions{known: map[string]identity{}, pending: map[string]*pendingDefinition{}, limiter: rate.NewLimiter(rate.Every(UnversionedInterval), unversionedBurst)}
}

// APIServiceOf returns the name of the APIService of a group version.
func APIServiceOf(groupVersion string) string {
	group, version, ok := strings.Cut(groupVersion, "/")
	if !ok {
		return groupVersion + "."
	}
	return version + "." + group
}

// Observe takes a definition from a list or a watch. If it was added, discoveries are due until one
// shows it. If it was changed, one is due after each of discoveryDelays. Only discoveries that
// began after it was seen count.
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

// Forget notes that a definition was deleted.
func (d *Definitions) Forget(now time.Time, name string) {
	name = strings.Clone(name)
	delete(d.known, name)
	d.pending[name] = &pendingDefinition{seen: now, deleted: true}
}

// Changed schedules a discovery for a change that no generation shows.
func (d *Definitions) Changed(now time.Time) {
	if d.due.IsZero() {
		d.due = now.Add(max(unversionedDelay, d.limiter.ReserveN(now, 1).DelayFrom(now)))
	}
}

// DeletedBefore reports whether a definition was seen to be deleted before asked.
func (d *Definitions) DeletedBefore(name string, asked time.Time) bool {
	s := d.pending[name]
	return s != nil && s.deleted && s.seen.Before(asked)
}

// Pending reports whether a definition waits for discovery to show it.
func (d *Definitions) Pending() bool { return len(d.pending) > 0 }

// Discovered notes a discovery. asked is when it began, and served has the names of the definitions
// that it shows. If again is not zero, some type is missing, and another discovery is due after
// that time.
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

// Next returns when a discovery is due; zero: none is.
func (d *Definitions) Next() time.Time {
	at := d.due
	for _, s := range d.pending {
		if t := s.seen.Add(discoveryDelays[s.next]); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at
}
