package metadata

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// sampleFor is how long samples of the API server's clock are gathered together. Those of
// the last two such times count.
const sampleFor = time.Minute

// clock is what is known of the API servers' clocks, from the Date of their answers.
// It is never ahead of the slowest. A Date is cut to whole seconds, and was written after
// the request was sent and before the answer came: so each sample is a lower and an upper
// bound. While the highest lower bound is below all upper ones, the samples can be of one
// clock, and that is the best; otherwise there are several, or one was set, and the lowest
// counts.
//
// Between samples the time is that of this machine's monotonic clock: setting the wall
// clock changes nothing.
type clock struct {
	mu      sync.Mutex
	base    time.Time // any moment of this machine's clocks
	samples [2]bounds // of the last times, the newest first
}

// bounds are those of samples, as differences to this machine's monotonic time: the least
// and the most of the lower ones, and the least of the upper ones.
type bounds struct {
	since              time.Time // zero: none
	least, most, above time.Duration
}

func (b *bounds) add(o bounds) {
	b.least, b.most, b.above = min(b.least, o.least), max(b.most, o.most), min(b.above, o.above)
}

// hear takes an answer of the kube-apiserver's own to a request that was sent at a time.
// Those of other API servers behind it carry the Date of whoever made them.
func (c *clock) hear(sent time.Time, resp *http.Response) {
	now := time.Now()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return
	}
	c.sample(sent, now, date)
}

func (c *clock) sample(sent, now, date time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base.IsZero() {
		c.base = now
	}
	d := date.Sub(c.local(now))
	b := bounds{now, d, d, date.Add(time.Second).Sub(c.local(sent))}
	s := &c.samples[0]
	if s.since.IsZero() || now.Sub(s.since) > sampleFor {
		c.samples[1], *s = *s, b
		return
	}
	s.add(b)
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
		s.add(old)
	}
	d := s.most
	if s.most > s.above {
		d = s.least
	}
	return c.local(now).Add(d).UTC(), true
}

// Time is the API server's, a second late at the most while its answers agree, less the
// more of them there are, and never early; not ok before the first list or watch was answered. It is for deadlines that
// rest on times in objects. now must be of [time.Now].
func (c *Client) Time(now time.Time) (t time.Time, ok bool) { return c.clock.at(now) }

// Clocked is config for another client of the same API servers, whose answers tell the
// time, too. It may only ask for what the kube-apiserver serves itself.
func (c *Client) Clocked(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return clocked{&c.clock, next} })
	return config
}

type clocked struct {
	clock *clock
	http.RoundTripper
}

func (t clocked) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := t.RoundTripper.RoundTrip(req)
	if err == nil {
		t.clock.hear(sent, resp)
	}
	return resp, err
}
