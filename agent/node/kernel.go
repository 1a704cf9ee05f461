package node

import (
	"errors"
	"log/slog"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/lastuse"
	"github.com/ebb-agent/ebb/agent/node/stats"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/bpf"
)

// kernel owns the kernel programs.
type kernel struct {
	probes     Probes // nil: none could be loaded
	missing    error  // why probes is nil
	config     config.Config
	lastUse    *lastuse.Tracker
	conditions *condition.Set
	log        *slog.Logger
}

// adopt takes over the kernel programs at the start. It logs those that do not work, stops the counting
// of writers if that is off, and lets every image count as used if stamps were lost.
func (k *kernel) adopt() {
	if k.probes == nil {
		k.log.Warn("no kernel programs: last use comes from runtime events, the disk is read every "+watermark.PollInterval.String(),
			"reason", k.missing)
		return
	}
	if k.config.Writers.Top == 0 { // an earlier agent may have started it
		if err := k.probes.CountWriters(); err != nil && !errors.Is(err, bpf.ErrNotAttached) {
			k.log.Warn("writers are still counted", "error", err)
		}
	}
	for _, p := range k.probes.Status() {
		if p.Reason != "" && !p.Waits && !stats.SwitchedOff(k.config, p.Object) {
			k.log.Warn("kernel program", "program", p.Name, "attached", p.Attached, "reason", p.Reason)
		}
	}
	if k.probes.Lost() {
		k.lastUse.AllUsedNow("stamps of an earlier version could not be read")
	}
}

// catchUp attaches the programs of filesystems whose kernel module was loaded after the agent started.
// Layers that could not be tracked for lack of them are tried again.
func (k *kernel) catchUp() {
	if k.probes == nil {
		return
	}
	came, err := k.probes.CatchUp()
	if err != nil {
		k.conditions.Begin("modules", slog.LevelError, "kernel programs for a new filesystem cannot be loaded", "error", err)
		return
	}
	k.conditions.End("modules", "kernel programs can be loaded again")
	if !came {
		return
	}
	k.lastUse.Layers().ProbesCame()
	for _, p := range k.probes.Status() {
		k.log.Debug("kernel program", "program", p.Name, "attached", p.Attached, "reason", p.Reason)
	}
}
