package gc_test

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// TestReadyJudgesAgain: the moment that was planned is no reason to act once what the
// decision rests on has moved it, and times beyond the range of Unix nanoseconds end no loop.
func TestReadyJudgesAgain(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, now := range map[string]time.Time{"usual": noon, "before all": {}, "after all": time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		t.Run(name, func(t *testing.T) {
			due := now.Add(time.Second)
			if now.IsZero() {
				due = noon
			}
			type entry = struct{ gc.Entry }
			c := gc.NewCollection(gc.Rules[*entry]{
				Decide: func(*entry) (gc.Reason, time.Time) { return "old", due },
				Act:    func(*entry, gc.Reason) gc.Action { return gc.Action{Verb: gc.Delete} },
			})
			kind := gc.Type{APIVersion: "v1", Kind: "Thing", Resource: "things"}
			c.Listing(now, kind)
			c.See(now, kind, gc.Object{APIVersion: "v1", Kind: "Thing", Name: "a", UID: "a", ResourceVersion: "1"}, func() *entry { return &entry{} }, func(*entry) {})
			c.Synced(now, kind)
			first := due
			due = due.Add(time.Hour) // something else moved it; nobody planned it again
			if got := c.Ready(first, 1); len(got) > 0 && !now.After(noon) {
				t.Errorf("it goes an hour early: %v", got)
			}
			if got := c.Ready(due, 1); len(got) != 1 && !now.After(noon) {
				t.Error("it does not go when it is due")
			}
		})
	}
}
