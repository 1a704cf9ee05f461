// Package limiter decides how many requests an API server gets at once.
package limiter

import "time"

const (
	// steadyLatency is what is never taken for a slow API server: more requests at
	// once make each take longer, and are still worth it.
	steadyLatency = 250 * time.Millisecond
	// slowFactor is how much longer than the quickest of late requests take on
	// average when the API server is slow.
	slowFactor = 5
	// halveInterval is the least time between two halvings: the answers to what was sent
	// before the first one say nothing new.
	halveInterval = 250 * time.Millisecond
	// forgetAfter is how long the quickest answer is remembered.
	forgetAfter = time.Minute
	// probeMin and probeMax bound the pause after the API server refused or failed
	// a single request in a row of failures; it doubles from one to the other.
	probeMin = 250 * time.Millisecond
	probeMax = 10 * time.Second
)

// Limiter decides how many requests may be on their way at once: one more for each
// round that went well, half as many when the API server says that it is too much
// (AIMD, as TCP does it). It is not safe for concurrent use.
type Limiter struct {
	limit, most int
	inFlight    int
	full        int // answers to come of those that were on their way when no more might be
	credit      int // such answers since the last increase
	average     time.Duration
	quickest    time.Duration
	quickestAt  time.Time
	halvedAt    time.Time
	failures    int // in a row
	until       time.Time
}

// New makes one that begins with start requests, and never admits more than most.
func New(start, most int) Limiter { return Limiter{limit: start, most: most} }

// Resize takes another cap.
func (l *Limiter) Resize(most int) { l.most, l.limit = most, min(l.limit, most) }

// Limit is how many requests may be on their way at present, InFlight how many are.
func (l *Limiter) Limit() int    { return l.limit }
func (l *Limiter) InFlight() int { return l.inFlight }

// Until is when the next request may be sent, after a pause.
func (l *Limiter) Until() time.Time { return l.until }

// Free is how many more requests may be sent now.
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

// Cancel takes a request back that was never sent.
func (l *Limiter) Cancel() { l.inFlight-- }

// Verdict is what an answer says of the API server's strength.
type Verdict uint8

// What an answer can say.
const (
	Succeeded Verdict = iota
	Failed            // no answer, or a 5xx: of one object, or of all
	Throttled         // 429
	Webhook           // nothing: an admission webhook failed
)

// Answered counts an answer.
func (l *Limiter) Answered(now time.Time, v Verdict, took, retryAfter time.Duration) {
	wasFull := l.full > 0
	l.full = max(0, l.full-1)
	l.inFlight--
	switch v {
	case Webhook:
	case Throttled:
		l.failures++
		l.halve(now)
		if retryAfter <= 0 {
			retryAfter = l.backoff()
		}
		l.pause(now, retryAfter)
	case Failed:
		// One object whose webhook is broken must not slow the others: only a row of
		// failures as long as what is on its way is the API server's.
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
	l.average = 0 // measured anew
}

func (l *Limiter) pause(now time.Time, d time.Duration) {
	if until := now.Add(min(d, time.Minute)); until.After(l.until) {
		l.until = until
	}
}

// backoff is the pause after so many failures in a row. The first of as many as
// are on their way are one failure.
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
