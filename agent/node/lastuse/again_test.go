package lastuse

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/policy/image"
)

// However many go, a bounded number is remembered: the latest.
func TestRemovedAreBounded(t *testing.T) {
	tracker, now := New(Options{}), time.Unix(1e9, 0)
	tracker.Restore(nil, state.New())
	for n := range removedMost + 10 {
		tracker.Removed(image.Decision{ImageID: fmt.Sprint(n)}, nil, now.Add(time.Duration(n)*time.Second))
	}
	if _, oldest := tracker.removed.records["9"]; len(tracker.removed.records) != removedMost || oldest {
		t.Errorf("%d are remembered, the tenth: %v", len(tracker.removed.records), oldest)
	}
	tracker.Removed(image.Decision{}, nil, now.Add(3*againWithin))
	if len(tracker.removed.records) != 1 {
		t.Errorf("%d are remembered for days", len(tracker.removed.records))
	}
}
