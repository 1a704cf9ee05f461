package gc_test

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

func TestStamp(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(-5, 0), time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := gc.StampOf(at); !got.Time().Equal(at) || (got == gc.NoStamp) != at.IsZero() {
			t.Errorf("%v comes back as %v", at, got.Time())
		}
	}
	for _, at := range []time.Time{time.Unix(7, 1), time.Unix(7, 999_999_999), time.Unix(-7, 1)} {
		if got := gc.StampOf(at).Time(); got.Before(at) || got.Sub(at) >= time.Second {
			t.Errorf("%v comes back as %v", at, got)
		}
	}
}
