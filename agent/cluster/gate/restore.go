package gate

import (
	"slices"

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
	if g.awaitsConfirmation() {
		g.log.Warn("nodes and volumes are not collected after an etcd restore: check what came back, then run ebb control confirm-restore", "reason", why)
	}
	g.saver.notify()
}

// ConfirmRestore lets these collectors continue. was reports whether there was something to
// confirm.
func (g *Gate) ConfirmRestore() (was bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if was, g.unconfirmed = g.unconfirmed, false; was {
		g.log.Info("nodes and volumes are collected again", "reason", "a person confirmed the state after etcd was restored")
	}
	g.updateMetrics()
	g.saver.notify()
	return was
}

// awaitsConfirmation reports whether a collector that is on waits for a person. The caller holds
// the lock.
func (g *Gate) awaitsConfirmation() bool {
	return g.unconfirmed && slices.ContainsFunc(g.confirm, func(name gc.Collector) bool { return g.config.ModeOf(name) != config.Off })
}

// AwaitsConfirmation is awaitsConfirmation for callers that do not hold the lock.
func (g *Gate) AwaitsConfirmation() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.awaitsConfirmation()
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
