package cluster

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
)

// onRestore has the collectors wait whose registration says so. That is saved for the next
// leader, as a pause by hand is.
func (g *gate) onRestore(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unconfirmed = true
	g.updateMetrics()
	if g.awaitsConfirmation() {
		g.log.Warn("nodes and volumes wait: look at what came back, then run ebb control confirm-restore", "reason", why)
	}
	g.notifySaver()
}

// confirmRestore lets these collectors go on. It says whether there was something to
// confirm.
func (g *gate) confirmRestore() (was bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if was, g.unconfirmed = g.unconfirmed, false; was {
		g.log.Info("nodes and volumes are collected again", "reason", "a person confirmed what stands since etcd was restored")
	}
	g.updateMetrics()
	g.notifySaver()
	return was
}

// awaitsConfirmation says whether a collector that is on waits for a person. The caller
// holds the lock.
func (g *gate) awaitsConfirmation() bool {
	return g.unconfirmed && slices.ContainsFunc(registry, func(r registration) bool { return r.confirmed && g.config.ModeOf(r.name) != config.Off })
}

// awaitsConfirmationNow is awaitsConfirmation for callers that do not hold the lock.
func (g *gate) awaitsConfirmationNow() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.awaitsConfirmation()
}

// collectorAwaits says whether a collector waits for a person.
func (g *gate) collectorAwaits(name gc.Collector) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unconfirmed && registered(name).confirmed
}

// collectorHeld says whether the gate would refuse everything of a collector.
func (g *gate) collectorHeld(name gc.Collector) bool {
	return g.deletionsHeld() || g.collectorAwaits(name)
}

func (c *Controller) serveConfirmRestore(w http.ResponseWriter, r *http.Request) {
	if c.ConfirmRestore(r.Context()) {
		fmt.Fprintln(w, "confirmed: nodes and volumes are collected again")
	} else {
		fmt.Fprintln(w, "there was nothing to confirm: it is not known that etcd was restored")
	}
	c.replySaved(w, r)
}
