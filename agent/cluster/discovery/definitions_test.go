package discovery

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// discoveries counts those that a definition costs within a while, if each shows the
// names that serve gives, and happen does something every 50 ms.
func discoveries(d *Definitions, begun time.Time, within time.Duration, served map[string]bool, happen func(now time.Time)) (n int) {
	for now := begun; now.Before(begun.Add(within)); now = now.Add(50 * time.Millisecond) {
		happen(now)
		if at := d.Next(); !at.IsZero() && !at.After(now) {
			n++
			d.Discovered(now, 0, served)
		}
	}
	return n
}

// Each UID and generation has one schedule, which ends when what is new is served; what
// changes nothing of that shares a few discoveries.
func TestDefinitions(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	event := func(name, uid string, generation int64) *metadata.Event {
		return &metadata.Event{Kind: metadata.Observed, Generation: generation, Object: gc.Object{Name: name, UID: uid}}
	}
	quiet := func(time.Time) {}
	served := map[string]bool{"widgets.example.com": true, APIServiceOf("example.com/v1"): true, APIServiceOf("v1"): true}
	d := NewDefinitions()
	now := noon
	check := func(what string, served map[string]bool, happen func(time.Time), least, most int) {
		t.Helper()
		if n := discoveries(d, now, 10*time.Minute, served, happen); n < least || n > most {
			t.Errorf("%s: %d discoveries", what, n)
		}
		now = now.Add(10 * time.Minute)
	}
	check("nothing", nil, quiet, 0, 0)
	for _, name := range []string{"widgets.example.com", "v1.example.com", "v1."} {
		d.Observe(now, event(name, "u1", 1))
	}
	check("three at the start", served, quiet, 1, 1)
	d.Observe(now, event("refused.example.com", "u2", 1))
	d.Observe(now, event("v1.broken.example.com", "u3", 0))
	check("two that are never served", served, quiet, len(discoveryDelays), len(discoveryDelays))
	d.Observe(now, event("widgets.example.com", "u1", 2))
	check("another generation", served, quiet, len(discoveryDelays), len(discoveryDelays))
	d.Observe(now, event("widgets.example.com", "u9", 1))
	check("made again", served, quiet, 1, 1)
	check("writes that change no generation", served, func(now time.Time) {
		d.Observe(now, event("widgets.example.com", "u9", 1))
		d.Observe(now, event("refused.example.com", "u2", 1))
	}, 1, unversionedBurst+10)
	d.Observe(now, event("widgets.example.com", "u9", 1))
	check("the last of them", served, quiet, 1, 1)
	d.Forget(now, "widgets.example.com")
	if !d.DeletedBefore("widgets.example.com", now.Add(1)) || d.DeletedBefore("widgets.example.com", now) {
		t.Error("it is not known when it went")
	}
	check("one that went, and is served on", served, quiet, len(discoveryDelays), len(discoveryDelays))
	d.Forget(now, "refused.example.com")
	check("one that went", served, quiet, 1, 1)
	if len(d.pending) > 0 || len(d.known) != 3 {
		t.Errorf("left behind: %v, %v", d.pending, d.known)
	}
}
