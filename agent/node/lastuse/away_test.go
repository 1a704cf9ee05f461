package lastuse

import (
	"testing"
	"time"
)

// What is remembered of images that do not come back ends, whoever began to wait for them.
func TestAwayEnds(t *testing.T) {
	away, now := make(awayImages), time.Unix(1e9, 0)
	away.taken("taken", now)
	away.back(now, "back")
	if !away.keeps("taken", now, false) || !away.keeps("back", now, false) || !away.keeps("of an earlier agent", now, true) {
		t.Error("images are forgotten at once")
	}
	if away.keeps("unknown", now, false) {
		t.Error("an image is waited for that nobody has withdrawn")
	}
	now = now.Add(awayMost)
	for _, id := range []string{"taken", "back", "of an earlier agent"} {
		if away.keeps(id, now, true) {
			t.Errorf("%q is waited for for ever", id)
		}
	}
	away.taken("taken", now)
	away.back(now, "back")
	if away.ended(); away.keeps("taken", now, false) || !away.keeps("back", now, false) {
		t.Error("an image whose withdrawal has ended is waited for, or one that is back is not")
	}
	now = now.Add(awayMost)
	if away.expire(now); len(away) != 0 {
		t.Errorf("%v is remembered", away)
	}
}
