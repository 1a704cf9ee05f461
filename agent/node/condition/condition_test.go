package condition_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/node/condition"
)

// The log hears of a beginning and an end once each; followers hear of the same.
func TestOnceEach(t *testing.T) {
	var out bytes.Buffer
	s := condition.NewSet(slog.New(slog.NewTextHandler(&out, nil)))
	var heard []bool
	s.Follow("disk", func(holds bool) { heard = append(heard, holds) })
	s.End("disk", "back")
	for range 3 {
		s.Begin("disk", slog.LevelWarn, "gone")
	}
	if !s.Holds("disk") || s.Holds("other") {
		t.Error("what holds is not what was begun")
	}
	s.End("disk", "back")
	s.End("disk", "back")
	s.Begin("disk", slog.LevelWarn, "gone")
	s.Drop("disk")
	s.End("disk", "back")
	if gone, back := strings.Count(out.String(), "msg=gone"), strings.Count(out.String(), "msg=back"); gone != 2 || back != 1 {
		t.Errorf("logged %d times that it is gone, %d that it is back:\n%s", gone, back, out.String())
	}
	want := []bool{false, true, false, true, false}
	if len(heard) != len(want) {
		t.Fatalf("followers heard %v, want %v", heard, want)
	}
	for n := range want {
		if heard[n] != want[n] {
			t.Fatalf("followers heard %v, want %v", heard, want)
		}
	}
}
