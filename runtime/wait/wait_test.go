package wait

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if !Sleep(t.Context(), time.Hour) || time.Since(begun) != time.Hour {
			t.Errorf("slept %s", time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun = time.Now()
		if Sleep(ctx, time.Hour) || time.Since(begun) != time.Minute {
			t.Errorf("a context that ended: slept %s", time.Since(begun))
		}
		if Sleep(ctx, 0) || !Sleep(t.Context(), 0) {
			t.Error("no pause does not report whether the context goes on")
		}
	})
}

func TestBackoff(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 5 * time.Second}
	for i, want := range []time.Duration{1, 2, 4, 5, 5} {
		if first := b.First(); first != (i == 0) {
			t.Errorf("attempt %d: first %v", i, first)
		}
		if got := b.Next(); got != want*time.Second {
			t.Errorf("attempt %d: %s, want %ds", i, got, want)
		}
	}
	if b.Reset(); !b.First() || b.Next() != time.Second {
		t.Error("a reset does not begin anew")
	}
}

func TestJitter(t *testing.T) {
	for range 1000 {
		if d := Jitter(time.Second); d < time.Second/2 || d > time.Second {
			t.Fatalf("%s", d)
		}
	}
	if Jitter(0) != 0 {
		t.Error("of nothing")
	}
}
