package metadata

import (
	"net/http"
	"sync"
	"time"
)

const (
	// sampleFor is how long samples of the API server's clock are gathered together.
	// Those of the last two such times count.
	sampleFor = time.Minute
	// agree is how far apart samples of one clock are: Date has whole seconds, and
	// answers take a while.
	agree = 1500 * time.Millisecond
)

// clock is what is known of the API servers' clocks, from the Date of their answers.
// It is never ahead of the slowest: a Date is cut to whole seconds, and is old when it
// arrives, so that each sample is a lower bound. If samples agree, the highest is the
// best; if they do not, there are several clocks, or one was set, and the lowest counts.
//
// Between samples the time is that of this machine's monotonic clock: setting the wall
// clock changes nothing.
type clock struct {
	mu      sync.Mutex
	base    time.Time // any moment of this machine's clocks
	samples [2]bounds // of the last times, the newest first
}

// bounds are those of samples, as differences to this machine's monotonic time.
type bounds struct {
	since       time.Time // zero: none
	least, most time.Duration
}

// hear takes an answer of the kube-apiserver's own. Those of other API servers behind it
// carry the Date of whoever made them.
func (c *clock) hear(resp *http.Response) {
	now := time.Now()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	c.sample(now, date)
}

func (c *clock) sample(now, date time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base.IsZero() {
		c.base = now
	}
	d := date.Sub(c.local(now))
	s := &c.samples[0]
	if s.since.IsZero() || now.Sub(s.since) > sampleFor {
		c.samples[1] = *s
		*s = bounds{now, d, d}
	}
	s.least, s.most = min(s.least, d), max(s.most, d)
}

// local is this machine's time by its monotonic clock, without the reading itself.
func (c *clock) local(now time.Time) time.Time { return c.base.Round(0).Add(now.Sub(c.base)) }

// at is the API servers' time; not ok if no answer has come.
func (c *clock) at(now time.Time) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.samples[0]
	if s.since.IsZero() {
		return time.Time{}, false
	}
	if old := c.samples[1]; !old.since.IsZero() {
		s.least, s.most = min(s.least, old.least), max(s.most, old.most)
	}
	d := s.most
	if s.most-s.least > agree {
		d = s.least
	}
	return c.local(now).Add(d).UTC(), true
}

// Time is the API server's, a second late at the most while its answers agree, and never
// early; not ok before the first list or watch was answered. It is for deadlines that
// rest on times in objects. now must be of [time.Now].
func (c *Client) Time(now time.Time) (t time.Time, ok bool) { return c.clock.at(now) }
