package removal_test

import (
	"testing"

	"github.com/ebb-agent/ebb/agent/node/removal"
)

// While it observes nothing passes, and the same plan is logged once, in whatever order; in enforce
// mode nothing is logged.
func TestGate(t *testing.T) {
	logged := 0
	log := func() { logged++ }
	g := removal.Gate{Switch: &removal.Switch{Observe: true}}
	for n, c := range []struct {
		ids  []string
		idle bool
		want int
	}{
		{ids: nil, want: 0},
		{ids: []string{"a", "b"}, want: 1},
		{ids: []string{"b", "a"}, want: 1},
		{ids: []string{"a"}, want: 2},
		{ids: []string{"a"}, idle: true, want: 3},
	} {
		if c.idle {
			g.Idle()
		}
		if g.Opens(c.ids, log) {
			t.Errorf("plan %d passes", n)
		}
		if logged != c.want {
			t.Errorf("after plan %d %d were logged, want %d", n, logged, c.want)
		}
	}
	g.Observe = false
	if !g.Opens([]string{"c"}, log) || logged != 3 {
		t.Error("closed in enforce mode")
	}
}
