package cluster

import (
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// looks are when types are discovered after a definition came, changed or went: what is
// served lags behind what was written, and behind one API server more than another.
var looks = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second, 10 * time.Second, 30 * time.Second}

// What leaves UID and generation of a definition as they were (its status, an APIService,
// which has no generation, a type that cannot be read any more) shares a few
// discoveries: somebody may write it all the time.
const (
	restlessBurst = 5
	restlessEvery = time.Minute
	restlessPause = time.Second // several are one
)

// definitions are the objects that define types, and the discoveries that they want.
// They belong to the loop.
type definitions struct {
	known    map[string]identity // by name: those of CRDs and APIServices differ
	looks    map[string]*schedule
	restless *rate.Limiter
	due      time.Time // a discovery because of what was restless, or missing; zero: none
}

type identity struct {
	uid        string
	generation int64
}

// schedule is what one UID and generation may cost.
type schedule struct {
	seen time.Time
	next int  // of looks
	came bool // once it is served there is nothing more to look for
	went bool // once it is not
}

func newDefinitions() definitions {
	return definitions{known: map[string]identity{}, looks: map[string]*schedule{}, restless: rate.NewLimiter(rate.Every(restlessEvery), restlessBurst)}
}

// apiServiceOf is the name of the APIService of a group version.
func apiServiceOf(groupVersion string) string {
	group, version, ok := strings.Cut(groupVersion, "/")
	if !ok {
		return groupVersion + "."
	}
	return version + "." + group
}

// observe a definition as a list or a watch told it: whatever discovery lacks of it is
// looked for, beginning with a discovery that was asked for after it was seen.
func (d *definitions) observe(now time.Time, e *metadata.Event) {
	o := &e.Object
	was, known := d.known[o.Name]
	if known && was.uid == o.UID && was.generation == e.Generation {
		d.changed(now)
		return
	}
	name := strings.Clone(o.Name)
	d.known[name] = identity{strings.Clone(o.UID), e.Generation}
	d.looks[name] = &schedule{seen: now, came: !known || was.uid != o.UID}
}

func (d *definitions) forget(now time.Time, name string) {
	name = strings.Clone(name)
	delete(d.known, name)
	d.looks[name] = &schedule{seen: now, went: true}
}

// changed wants a discovery for what has no generation to tell by.
func (d *definitions) changed(now time.Time) {
	if d.due.IsZero() {
		d.due = now.Add(max(restlessPause, d.restless.ReserveN(now, 1).DelayFrom(now)))
	}
}

// wentBefore says whether a definition was seen to go before some moment.
func (d *definitions) wentBefore(name string, asked time.Time) bool {
	s := d.looks[name]
	return s != nil && s.went && s.seen.Before(asked)
}

// open says whether anything is looked for.
func (d *definitions) open() bool { return len(d.looks) > 0 }

// discovered notes a discovery: when it was asked for, and which definitions it shows
// at work. Some type is missing if another discovery is wanted again after a while.
func (d *definitions) discovered(asked time.Time, again time.Duration, served map[string]bool) {
	if !d.due.After(asked) {
		d.due = time.Time{}
	}
	if at := asked.Add(again); again > 0 && (d.due.IsZero() || d.due.After(at)) {
		d.due = at
	}
	for name, s := range d.looks {
		if !s.seen.Before(asked) {
			continue
		}
		for s.next < len(looks) && !s.seen.Add(looks[s.next]).After(asked) {
			s.next++
		}
		if s.next == len(looks) || s.came && served[name] || s.went && !served[name] {
			delete(d.looks, name)
		}
	}
}

// next is when a discovery is wanted; zero: none is.
func (d *definitions) next() time.Time {
	at := d.due
	for _, s := range d.looks {
		if t := s.seen.Add(looks[s.next]); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at
}
