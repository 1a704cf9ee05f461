package metadata

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// sampleFor is how long samples of the API server's clock are combined into one interval. The
// samples of the last two intervals count.
const sampleFor = time.Minute

// clock estimates the API servers' clocks from the Date of their answers. It is never ahead of
// the slowest. A Date is truncated to seconds, and was written after the request was sent and
// before the answer came. So each sample is a lower and an upper bound.
//
// While the highest lower bound is below all upper ones, the samples can be of one clock, and the
// highest lower bound is the best estimate. Otherwise there are several clocks, or one was set,
// and the lowest lower bound counts.
//
// Between samples the time is that of this machine's monotonic clock: setting the wall clock
// changes nothing.
type clock struct {
	mu      sync.Mutex
	base    time.Time // a moment of this machine's clocks, for reference
	samples [2]bounds // of the last two intervals, the newest first
}

// bounds combines samples, as differences to this machine's monotonic time. least and most are
// the lowest and the highest lower bound; above is the lowest upper bound.
type bounds struct {
	since              time.Time // start of the interval; zero: no samples
	least, most, above time.Duration
}

func (b *bounds) add(o bounds) {
	b.least, b.most, b.above = min(b.least, o.least), max(b.most, o.most), min(b.above, o.above)
}

// hear takes a sample from an answer of the kube-apiserver itself. sent is when its request was
// sent. Answers of other API servers behind it carry the Date of those servers.
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

// local returns this machine's time by its monotonic clock, without the monotonic reading itself.
func (c *clock) local(now time.Time) time.Time { return c.base.Round(0).Add(now.Sub(c.base)) }

// at returns the API servers' time, and false if no answer has come.
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

// Time returns the API server's time. The result is never early. While the answers agree, it is
// at most a second late, and less with more answers. ok is false before the first answer of the
// kube-apiserver. The time is for deadlines that are based on times in objects. now must be of
// [time.Now].
func (c *Client) Time(now time.Time) (t time.Time, ok bool) { return c.clock.at(now) }

// Clocked returns config for another client of the same API servers, whose answers are samples of
// the clock, too. That client may only request what the kube-apiserver serves itself.
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
