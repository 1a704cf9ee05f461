package removal_test

import (
	"testing"

	"github.com/ebb-agent/ebb/agent/node/removal"
)

// While it observes nothing passes, and the same plan is said once, in whatever order; in enforce
// mode nothing is said.
func TestGate(t *testing.T) {
	said := 0
	say := func() { said++ }
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
		if g.Opens(c.ids, say) {
			t.Errorf("plan %d passes", n)
		}
		if said != c.want {
			t.Errorf("after plan %d %d were said, want %d", n, said, c.want)
		}
	}
	g.Observe = false
	if !g.Opens([]string{"c"}, say) || said != 3 {
		t.Error("closed in enforce mode")
	}
}
