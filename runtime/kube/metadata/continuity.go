package metadata

import (
	"errors"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// awayAfter is how long the API server must have been away before its etcd may be another one,
// whatever its versions. To restore an etcd from a backup, all API servers are stopped first, and
// that takes longer. A connection that a load balancer cuts is replaced much sooner, and so is an
// API server that stops while another one runs.
const awayAfter = 2 * time.Second

// continuity is what the followers of a client know together about whether the API server was
// there all the time. After an absence its etcd may be a restored backup, and may have advanced
// beyond all versions that were seen. Then only the client's last own write before the absence
// shows how far the history is still the same.
type continuity struct {
	after time.Duration // awayAfter, except in tests

	mu    sync.Mutex
	heard time.Time // when the server last answered
	since time.Time // when it became unreachable; zero: it is reachable
	epoch uint64    // number of absences

	last    written                            // last acknowledged own write; zero: none is known
	failed  bool                               // the own write after last got no answer
	bounds  []bound                            // bounds[i] is of the absence between the epochs i and i+1
	touched map[schema.GroupResource]time.Time // when an object of a type was last seen outside its stream
	guests  []guest

	followers map[*Follower]*footing // those that run, except of aggregated types
	unsettled int                    // followers that are not settled in this epoch
	sure      chan struct{}          // closed once Sure is true; nil: no caller waits
}

// footing is the state of a follower with regard to absences.
type footing struct {
	begun   uint64 // the epoch in which its last list or watch was opened
	open    bool   // that list or watch has not ended
	settled uint64 // the last epoch for which its reports were known to hold, or Unreadable
}

// written is an own write. What was learned before the write began has a lower version, if it is
// in the same etcd.
type written struct {
	version uint64
	begun   time.Time
	acked   time.Time
}

// bound is the version up to which the history from before an absence still holds after it.
type bound struct {
	written      // zero: nothing holds
	sure    bool // it was seen, after the absence, whether this write is still there
}

// guest is a type that was listed and may be in the same etcd as the own writes. It is if its
// list lies between two of them.
type guest struct {
	version uint64
	listed  time.Time
	home    func() // called if it does
}

// hear notes that the API server is there, and returns the current epoch.
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

// begin starts an epoch. b bounds what was reported before.
func (c *continuity) begin(b bound) {
	c.epoch++
	c.bounds = append(c.bounds, b)
	c.unsettled = len(c.followers)
	for f := range c.followers {
		f.lookAgain()
	}
}

// miss notes that the API server does not answer. If only silence shows that, the absence began
// when the server last answered.
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

// wrote notes an own write that was acknowledged. follows is whether the write before was still
// there when this one was made. late is whether this write came later than it should have,
// although none failed.
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
		// A backup that has the write before this one would have to be made and restored in
		// between.
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

// looked notes whether a live read found the last own write unchanged.
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

// confirm notes that the last own write is still there.
func (c *continuity) confirm() {
	for i := len(c.bounds) - 1; i >= 0 && !c.bounds[i].sure; i-- {
		c.bounds[i].sure = true
	}
}

// lose notes that the last own write is gone: nothing from before is known to hold.
func (c *continuity) lose() {
	for i := len(c.bounds) - 1; i >= 0 && !c.bounds[i].sure; i-- {
		c.bounds[i] = bound{sure: true}
	}
	if c.last == (written{}) {
		return // there is no own write yet, or the loss is known
	}
	c.begin(bound{sure: true})
	c.last = written{}
}

// standing is whether what was reported of a type still holds.
type standing uint8

const (
	unsure standing = iota // the witness was not read yet
	stands
	fallen // it may not hold: the type must be listed
)

// away reports whether the API server has been away for so long that its next answer begins an
// epoch.
func (c *continuity) away(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.since.IsZero() && now.Sub(c.since) >= c.after
}

// stands returns the current epoch, and whether reports about a type up to a version still hold.
// The stream of those reports began in epoch.
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

// touch notes that an answer showed an object of a type. The object may be newer than what the
// type's stream has reported.
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

// listed takes the version of a list that was just read, and calls home once the next own write
// shows that the list is not newer. floor is the version of the last own write before the list
// was requested.
func (c *continuity) listed(floor, version uint64, home func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if floor > 0 && version >= floor && c.last.version > 0 {
		c.guests = append(c.guests, guest{version, time.Now(), home})
	}
}

// settle decides for each guest whether it is in the etcd of the own writes, if the last own
// write began after the guest was listed.
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

// errAway: the API server was away for so long that earlier reports may not hold.
var errAway = errors.New("the API server was away")

// missed notes the end of an attempt if the API server may be away. Any answer, even a bad one,
// shows that the server is there.
func (f *Follower) missed(err error) {
	if f.t.Aggregated {
		return // the silence is that of the aggregated server
	}
	var refusal *fault.Answer
	switch {
	case errors.As(err, &refusal) && (refusal.Code != 0 || refusal.Kind != ErrUnavailable):
	case errors.As(err, &refusal), errors.Is(err, errEnded) && f.doubtful:
		f.c.continuity.miss(time.Now(), f.silent)
	}
}
