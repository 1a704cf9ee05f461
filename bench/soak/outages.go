package main

import (
	"sync"
	"time"
)

const (
	// usual is how late a watch may be although nothing is wrong.
	usual = 10 * time.Second
	// healing is how long after an outage the collector may not yet have received all events.
	healing = 45 * time.Second
)

// outages are the times in which connections or processes were at fault.
type outages struct {
	mu   sync.Mutex
	list []outage
}

type outage struct{ begun, ended time.Time }

func (o *outages) begin(now time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, outage{begun: now})
	return len(o.list) - 1
}

func (o *outages) end(i int, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list[i].ended = now
}

// unseen reports whether the collector may, at now, not have seen what was written at the time
// written. Either that was a moment ago, or an outage began before it was sure to be seen and has
// not healed.
func (o *outages) unseen(written, now time.Time) bool {
	if now.Sub(written) < usual {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.list {
		healed := a.ended.Add(healing)
		if a.ended.IsZero() {
			healed = now.Add(1)
		}
		if a.begun.Before(written.Add(usual)) && written.Before(healed) && now.Before(healed) {
			return true
		}
	}
	return false
}

// lately reports whether there is an outage, or one has not healed.
func (o *outages) lately(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.list {
		if a.ended.IsZero() || now.Before(a.ended.Add(healing)) {
			return true
		}
	}
	return false
}
