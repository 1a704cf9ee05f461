package removal_test

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/removal"
)

// Each failure doubles the wait, up to an hour; other things are not concerned.
func TestFailures(t *testing.T) {
	var f removal.Failures[string]
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for n, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		times, wait := f.Add("a", now)
		if times != n+1 || wait != want || !f.Until("a").Equal(now.Add(want)) {
			t.Errorf("failure %d: counted as %d, wait %v, want %v", n+1, times, wait, want)
		}
	}
	f.Add("b", now)
	f.Add("c", now)
	if f.Times("b") != 1 || f.Times("d") != 0 || !f.Until("d").IsZero() || f.Len() != 3 {
		t.Error("failures of one thing concern another")
	}
	f.ClockSet(now.Add(-2 * time.Minute)) // as if it had failed in the future
	f.Forget("b")
	f.Keep(func(key string) bool { return key != "c" })
	if f.Len() != 0 {
		t.Errorf("%d failures are left", f.Len())
	}
}
