// Package limiter decides how many requests an API server gets at once.
package limiter

import "time"

const (
	// steadyLatency is a latency that never counts as a slow API server. More requests at once make
	// each one take longer, and are still worth it.
	steadyLatency = 250 * time.Millisecond
	// slowFactor is the ratio of average to quickest recent latency above which the API server is
	// slow.
	slowFactor = 5
	// halveInterval is the least time between two halvings. The answers to requests that were sent
	// before the first one carry no new information.
	halveInterval = 250 * time.Millisecond
	// forgetAfter is how long the quickest answer is remembered.
	forgetAfter = time.Minute
	// probeMin and probeMax bound the pause after the API server refused a request, or failed a row
	// of them. The pause doubles from one to the other.
	probeMin = 250 * time.Millisecond
	probeMax = 10 * time.Second
)

// Limiter decides how many requests may be in flight at once: one more after each round that went
// well, half as many when the API server throttles, fails or is slow (AIMD, as in TCP). It is not
// safe for concurrent use.
type Limiter struct {
	limit, most int
	inFlight    int
	full        int // pending answers to requests that were in flight when the limit was reached
	credit      int // answers to these since the last increase
	average     time.Duration
	quickest    time.Duration
	quickestAt  time.Time
	halvedAt    time.Time
	failures    int // in a row
	until       time.Time
}

// New returns a Limiter that starts with start requests, and never admits more than most.
func New(start, most int) Limiter { return Limiter{limit: start, most: most} }

// Resize sets another maximum.
func (l *Limiter) Resize(most int) { l.most, l.limit = most, min(l.limit, most) }

// Limit returns how many requests may be in flight at present, InFlight how many are.
func (l *Limiter) Limit() int    { return l.limit }
func (l *Limiter) InFlight() int { return l.inFlight }

// Until returns when the next request may be sent, after a pause.
func (l *Limiter) Until() time.Time { return l.until }

// Free returns how many more requests may be sent now.
func (l *Limiter) Free(now time.Time) int {
	if now.Before(l.until) {
		return 0
	}
	return max(0, l.limit-l.inFlight)
}

// Sent counts a request.
func (l *Limiter) Sent() {
	if l.inFlight++; l.inFlight >= l.limit {
		l.full = l.inFlight
	}
}

// MarkFull notes that more requests would be in flight if they were allowed.
func (l *Limiter) MarkFull() { l.full = l.inFlight }

// Cancel takes back a request that was counted and never sent.
func (l *Limiter) Cancel() { l.inFlight-- }

// Verdict is what an answer shows about the load of the API server.
type Verdict uint8

// The verdicts.
const (
	Succeeded Verdict = iota
	Failed            // no answer, or a 5xx; for one object, or for all
	Throttled         // 429
	OfObject          // it refused an object, or a webhook failed: this shows nothing about the API server
)

// Answered counts an answer.
func (l *Limiter) Answered(now time.Time, v Verdict, took, retryAfter time.Duration) {
	wasFull := l.full > 0
	l.full = max(0, l.full-1)
	l.inFlight--
	switch v {
	case OfObject:
	case Throttled:
		l.failures++
		l.halve(now)
		if retryAfter <= 0 {
			retryAfter = l.backoff()
		}
		l.pause(now, retryAfter)
	case Failed:
		// One object whose webhook is broken must not slow the others. Only a row of failures that
		// is as long as the limit counts as the API server's.
		if l.failures++; l.failures >= l.limit {
			l.halve(now)
			l.pause(now, l.backoff())
		}
	default:
		l.failures = 0
		l.measure(now, took)
		if l.slow() {
			l.halve(now)
		} else if wasFull {
			l.grow()
		}
	}
}

func (l *Limiter) grow() {
	if l.credit++; l.credit >= l.limit {
		l.credit, l.limit = 0, min(l.limit+1, l.most)
	}
}

func (l *Limiter) halve(now time.Time) {
	if now.Sub(l.halvedAt) < halveInterval {
		return
	}
	l.halvedAt, l.credit, l.limit = now, 0, max(1, l.limit/2)
	l.average = 0 // measured again from the next answer
}

func (l *Limiter) pause(now time.Time, d time.Duration) {
	if until := now.Add(min(d, time.Minute)); until.After(l.until) {
		l.until = until
	}
}

// backoff returns the pause after this row of failures. The first ones, as many as the limit, count
// as one failure: they were in flight together.
func (l *Limiter) backoff() time.Duration {
	return min(probeMin<<min(max(l.failures-l.limit, 0), 10), probeMax)
}

func (l *Limiter) measure(now time.Time, took time.Duration) {
	if l.average == 0 {
		l.average = took
	}
	l.average += (took - l.average) / 16
	if l.quickest == 0 || took < l.quickest || now.Sub(l.quickestAt) > forgetAfter {
		l.quickest, l.quickestAt = took, now
	}
}

func (l *Limiter) slow() bool {
	return l.average > steadyLatency && l.average > slowFactor*l.quickest
}
