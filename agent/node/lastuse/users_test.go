package lastuse

import (
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Who runs is the latest user, or else who ended last, whatever the order of the list; without a
// container the one before stays.
func TestLatestUser(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	list := []inventory.Container{
		{Namespace: "k8s.io", ID: "a", ImageID: "ended", Ended: at, Pod: inventory.Pod{Namespace: "default", Name: "first"}},
		{Namespace: "k8s.io", ID: "b", ImageID: "ended", Ended: at.Add(time.Second), Pod: inventory.Pod{Namespace: "default", Name: "second"}},
		{Namespace: "k8s.io", ID: "c", ImageID: "runs", Ended: at.Add(time.Hour), Pod: inventory.Pod{Namespace: "default", Name: "over"}},
		{Namespace: "moby", ID: "d", ImageID: "runs"},
		{Namespace: "moby", ID: "c", ImageID: "runs"},
		{Namespace: "moby", ID: "e"},
	}
	want := map[string]string{"ended": "pod default/second", "runs": "container moby/d", "unused": "pod default/former"}
	for range len(list) {
		list = append(list[1:], list[0])
		s := images{records: map[string]state.Image{"ended": {}, "runs": {UsedBy: "x"}, "unused": {UsedBy: "pod default/former"}}}
		s.usedBy(slices.Clone(list))
		for id, user := range want {
			if got := s.records[id].UsedBy; got != user {
				t.Errorf("%s was used by %q, want %q", id, got, user)
			}
		}
		if len(s.records) != len(want) {
			t.Errorf("%d records", len(s.records))
		}
	}
}
