package gate

import (
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
)

// OnRestore makes the collectors of Options.Confirm wait until a person has confirmed the state.
// That is saved for the next leader, like a pause by hand.
func (g *Gate) OnRestore(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unconfirmed = true
	g.updateMetrics()
	if waiting := g.awaitingConfirmation(); len(waiting) > 0 {
		g.log.Warn("collectors wait after an etcd restore: check what came back, then run ebb control confirm-restore", "collectors", waiting, "reason", why)
	}
	g.saver.notify()
}

// ConfirmRestore lets these collectors continue. was reports whether there was something to
// confirm.
func (g *Gate) ConfirmRestore() (was bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if was, g.unconfirmed = g.unconfirmed, false; was {
		g.log.Info("collectors go on after an etcd restore", "reason", "a person confirmed the state after etcd was restored")
	}
	g.updateMetrics()
	g.saver.notify()
	return was
}

// awaitingConfirmation returns the collectors that are on and wait for a person. The caller holds the lock.
func (g *Gate) awaitingConfirmation() (names []string) {
	for _, name := range g.confirm {
		if g.unconfirmed && g.config.ModeOf(name) != config.Off {
			names = append(names, name.String())
		}
	}
	return names
}

// AwaitingConfirmation is awaitingConfirmation for callers that do not hold the lock. It joins the names.
func (g *Gate) AwaitingConfirmation() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.awaitingConfirmation(), " and ")
}

// Awaits reports whether a collector waits for a person.
func (g *Gate) Awaits(name gc.Collector) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.awaits(name)
}

func (g *Gate) awaits(name gc.Collector) bool {
	return g.unconfirmed && slices.Contains(g.confirm, name)
}

// Held reports whether the gate would refuse every deletion of a collector, whatever its root.
func (g *Gate) Held(name gc.Collector) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.awaits(name) || g.config.ModeOf(name) == config.Enforce && (g.tripped || g.breaker.Exhausted())
}
