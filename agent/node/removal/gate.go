package removal

import (
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/agent/node/history"
)

// Gate is what everything of one kind passes before it is removed: the switch, the book of
// failures by ID, and the history. What limits how much goes at a time is the kind's own.
type Gate struct {
	*Switch
	History *history.History // where it is booked what goes, and what does not although its turn has come
	Failures[string]
	logged string // what a plan would remove that was logged
}

// Opens reports whether a plan that removes these may be carried out. In mode observe it may not:
// say is called then, once for the same plan. It is not called during a pause.
func (g *Gate) Opens(ids []string, say func()) bool {
	if !g.Observe {
		return g.Paused() == nil
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	if key := strings.Join(ids, " "); key != g.logged {
		g.logged = key
		say()
	}
	return false
}

// Idle is for a plan that removes nothing: the next one that does is another one.
func (g *Gate) Idle() { g.logged = "" }
