package removal

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Gate is what every removal of one kind passes: the switch, the failures by ID, and the history. Each
// kind limits the number of its removals itself.
type Gate struct {
	*Switch
	History *history.History // of removals, and of what was kept although its turn had come
	Failures[string]
	noRoom map[string]bool // IDs that failed because the disk was full
	logged string          // IDs of the plan that was logged last
}

// Failed records that a removal failed, as Add does.
func (g *Gate) Failed(id string, now time.Time, err error) (times int, wait time.Duration) {
	if errors.Is(err, inventory.ErrNoSpace) {
		if g.noRoom == nil {
			g.noRoom = make(map[string]bool)
		}
		g.noRoom[id] = true
	}
	return g.Add(id, now)
}

// RoomAgain forgets the failures on a full disk: there is room now.
func (g *Gate) RoomAgain() {
	for id := range g.noRoom {
		g.Forget(id)
	}
	clear(g.noRoom)
}

// Opens reports whether a plan that removes these may be carried out. In mode observe it may not: then
// Opens calls say, once for the same plan. In mode enforce it may not during a pause, and say is not
// called.
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

// Idle is called for a plan that removes nothing. The next plan that removes something counts as
// another one.
func (g *Gate) Idle() { g.logged = "" }
