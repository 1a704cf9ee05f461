package metadata

import (
	"errors"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// awayAfter is how long the API server must have been away before its etcd may be
// another one, whatever it says of versions. Who restores an etcd from a backup stops
// all API servers first, and that takes longer. A connection that a load balancer cuts,
// and an API server that goes while another one is there, are replaced much sooner.
const awayAfter = 2 * time.Second

// continuity is what the followers of a client know together of whether the API
// server has been there all the time. After an absence its etcd may be one from a
// backup, and may have gone on beyond all versions that were seen. Then only our own
// last write before the absence tells how far the history is still the same one.
type continuity struct {
	after time.Duration // awayAfter, but in tests

	mu    sync.Mutex
	heard time.Time // last, by a watch or an own write
	since time.Time // it is away; zero: it is not
	epoch uint64    // how often it was away for long

	last    written                            // own write that was acknowledged; zero: none is known
	failed  bool                               // the own write after it got no answer
	bounds  []bound                            // bounds[i] is of the absence between the epochs i and i+1
	touched map[schema.GroupResource]time.Time // when something of a type was last learned other than by its stream
	guests  []guest

	followers map[*Follower]*footing // those that run, but for other API servers' types
	unsettled int                    // of them
	sure      chan struct{}          // closed once there are none; nil: nobody waits
}

// footing is how a follower stands towards absences.
type footing struct {
	begun   uint64 // the epoch in which its last list or watch was opened
	open    bool   // and it goes on
	settled uint64 // the one in which what it has reported was known to hold, or to be unknown
}

// written is an own write. What was learned before it was begun has a lower version, if
// it is in the same etcd.
type written struct {
	version uint64
	begun   time.Time
	acked   time.Time
}

// bound says up to where the history from before an absence holds after it.
type bound struct {
	written      // zero: nowhere
	sure    bool // it was seen, after the absence, that this write is still there
}

// guest is a type that was listed, of which it is not known yet whether it is in the same
// etcd as the own writes: its list must lie between two of them.
type guest struct {
	version uint64
	listed  time.Time
	home    func() // called if it does
}

// hear notes that the API server is there.
func (c *continuity) hear(now time.Time) (epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hearLocked(now)
}

func (c *continuity) hearLocked(now time.Time) (epoch uint64) {
	if !c.since.IsZero() && now.Sub(c.since) >= c.after {
		c.begin(bound{written: c.last})
	}
	c.heard, c.since = now, time.Time{}
	c.notify()
	return c.epoch
}

// begin an epoch. What was reported before is bounded.
func (c *continuity) begin(b bound) {
	c.epoch++
	c.bounds = append(c.bounds, b)
	c.unsettled = len(c.followers)
	for f := range c.followers {
		f.lookAgain()
	}
}

// miss notes that nothing answers. If that was found out by silence alone, it has been
// so since something was heard.
func (c *continuity) miss(now time.Time, silence bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() {
		return
	}
	if c.since = now; silence && !c.heard.IsZero() {
		c.since = c.heard
	}
}

// wrote notes an own write that was acknowledged. follows says that it was made on top
// of the one before, which was there until then. late says that it came later than it
// should have, although none failed.
func (c *continuity) wrote(w written, follows, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gap := w.acked.Sub(c.last.acked)
	switch {
	case !follows:
		c.lose()
	case c.failed || late:
		if c.since.IsZero() {
			c.since = c.heard
		}
	case gap <= 2*c.after:
		// A backup that has the write before this one would have to be made, and put
		// back, in between.
		c.since = time.Time{}
	}
	c.hearLocked(w.acked)
	if follows {
		c.confirm()
	}
	c.last, c.failed = w, false
	c.settle()
}

// notWritten notes an own write that got no answer.
func (c *continuity) notWritten(now time.Time) {
	c.mu.Lock()
	c.failed = true
	c.mu.Unlock()
	c.miss(now, true)
}

// looked notes what became of the last own write, as a live read has shown.
func (c *continuity) looked(now time.Time, same bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hearLocked(now)
	if same {
		c.confirm()
	} else {
		c.lose()
	}
}

// confirm says that the last own write is still there.
func (c *continuity) confirm() {
	for i := len(c.bounds) - 1; i >= 0 && !c.bounds[i].sure; i-- {
		c.bounds[i].sure = true
	}
}

// lose says that it is not: nothing from before is known to hold.
func (c *continuity) lose() {
	for i := len(c.bounds) - 1; i >= 0 && !c.bounds[i].sure; i-- {
		c.bounds[i] = bound{sure: true}
	}
	if c.last == (written{}) {
		return // there is none yet, or that is known
	}
	c.begin(bound{sure: true})
	c.last = written{}
}

// standing is whether what was reported of a type still holds.
type standing uint8

const (
	unsure standing = iota // nobody has looked yet
	stands
	fallen // perhaps: it has to be listed
)

// away says whether the API server has been away for so long that an absence ends with
// the next answer.
func (c *continuity) away(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero() && now.Sub(c.since) >= c.after
}

// stands says how it is with what was reported up to a version, and began to be reported in an
// epoch.
func (c *continuity) stands(r schema.GroupResource, epoch, version uint64) (now uint64, s standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s = stands
	for _, b := range c.bounds[min(epoch, c.epoch):] {
		if version > b.version || !c.touched[r].Before(b.begun) {
			return c.epoch, fallen
		}
		if !b.sure {
			s = unsure
		}
	}
	return c.epoch, s
}

// touch notes that something of a type was learned by an answer: it may be newer than
// what its stream has reported.
func (c *continuity) touch(r schema.GroupResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.touched == nil {
		c.touched = map[schema.GroupResource]time.Time{}
	}
	c.touched[r] = time.Now()
}

// floor is the version of the last own write; 0 if there is none.
func (c *continuity) floor() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.version
}

// listed has home called if a list that was just read is not newer than the next own
// write. floor is the version of the last one before it was asked for.
func (c *continuity) listed(floor, version uint64, home func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if floor > 0 && version >= floor && c.last.version > 0 {
		c.guests = append(c.guests, guest{version, time.Now(), home})
	}
}

// settle says of each guest where it is at home, if the last own write tells.
func (c *continuity) settle() {
	left := c.guests[:0]
	for _, g := range c.guests {
		switch {
		case !g.listed.Before(c.last.begun):
			left = append(left, g)
		case g.version <= c.last.version:
			g.home()
		}
	}
	clear(c.guests[len(left):])
	c.guests = left
}

// errAway: the API server was away for long, so that nothing is known for sure.
var errAway = errors.New("the API server was away")

// missed notes an end of an attempt that may mean that the API server is away. An
// answer, even a bad one, is of somebody who is there.
func (f *Follower) missed(err error) {
	if f.t.Aggregated {
		return // silence is the other server's
	}
	var refusal *fault.Answer
	switch {
	case errors.As(err, &refusal) && (refusal.Code != 0 || refusal.Kind != ErrUnavailable):
	case errors.As(err, &refusal), errors.Is(err, errEnded) && f.doubtful:
		f.c.continuity.miss(time.Now(), f.silent)
	}
}
