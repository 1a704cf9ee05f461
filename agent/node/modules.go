package node

import "log/slog"

// catchUp attaches programs whose filesystem has come since: a module that was
// not loaded when the agent began. What it makes possible is done at once.
func (a *Agent) catchUp() {
	if a.probes == nil {
		return
	}
	came, err := a.probes.CatchUp()
	if err != nil {
		a.said.once(a.log, "modules", slog.LevelError, "kernel programs for a new filesystem cannot be loaded", "error", err)
		return
	}
	a.said.clear(a.log, "modules", "kernel programs can be loaded again")
	if !came {
		return
	}
	clear(a.layers.retry) // they could not be tracked
	for _, p := range a.probes.Status() {
		a.log.Debug("kernel program", "program", p.Name, "attached", p.Attached, "reason", p.Reason)
	}
}

// canWatch reports whether the kernel can raise lines on a filesystem of this
// type. Its module may have come with the mount that was just read.
func (a *Agent) canWatch(fsType string) bool {
	if a.probes == nil {
		return false
	}
	if !a.probes.CanWatch(fsType) {
		a.catchUp()
	}
	return a.probes.CanWatch(fsType)
}
