package node

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// merge brings the image records in line with an inventory that was asked for at that
// time. An image that was in use then was last used then; one that is gone is forgotten,
// so that it counts as new should it come again. One that is merely without its names
// is not.
func (a *Agent) merge(inv *inventory.Inventory, asked, now time.Time) {
	known := make(map[string]inventory.Image, len(inv.Images))
	for _, i := range inv.Images {
		known[i.ID] = i
		r, ok := a.rec.Images[i.ID]
		if !ok {
			r = state.Image{Observed: now, Arrived: now}
			if !i.Updated.IsZero() {
				// It came before it was seen, and may have been used since; but not
				// before the last time that it was not there.
				r.Arrived = latest(a.rec.Meta.Listed, a.clock.fromWall(i.Updated))
			}
			a.pulledAgain(i, &r, now)
		}
		if i.InUse {
			r.LastUsed = latest(r.LastUsed, asked)
		}
		a.rec.Images[i.ID] = r
	}
	missing := 0 // and remembered
	for id := range a.rec.Images {
		if _, ok := known[id]; ok {
			continue
		}
		if a.away.keeps(id, now, a.unmended) {
			missing++
			continue
		}
		delete(a.rec.Images, id)
		delete(a.failures, id)
	}
	a.away.expire(now)
	a.known = known
	a.dropLayers(inv, missing > 0)
}

// harvest takes over the kernel's stamps. An image unpacked in several
// namespaces was used when any of its layers was.
func (a *Agent) harvest() {
	if a.probes == nil {
		return
	}
	stamps, err := a.probes.LastUses()
	if err != nil {
		a.said.once(a.log, "harvest", slog.LevelError, "the kernel's last-use stamps cannot be read", "error", err)
		return
	}
	a.said.clear(a.log, "harvest", "the kernel's last-use stamps can be read again")
	a.noteLostUses()
	for id, i := range a.known {
		r := a.rec.Images[id]
		for _, l := range i.Layers {
			key, ok := a.layers.key(l)
			if !ok {
				continue
			}
			// A stamp from before the image came is of another directory that
			// had the same inode number.
			if at := a.clock.atBoot(stamps[key]); stamps[key] > 0 && at.After(r.Arrived) {
				a.stamped[id] = a.stamped[id] || at.After(a.rec.Meta.Listed)
				r.LastUsed = latest(r.LastUsed, at)
			}
		}
		a.rec.Images[id] = r
	}
}

func (a *Agent) imageNamed(reference string) (id string, ok bool) {
	for id, i := range a.known {
		if slices.Contains(i.References, reference) {
			return id, true
		}
	}
	return "", false
}

// notedFor is how long the kernel keeps uses of directories that nobody has
// resolved: those of other runtimes are never claimed and would fill the table.
const notedFor = 24 * time.Hour

// adoptProbes takes over what the kernel programs bring with them.
func (a *Agent) adoptProbes() {
	if a.probes == nil {
		a.log.Warn("no kernel programs: last use comes from runtime events, the disk is read every "+pollInterval.String(),
			"reason", a.noProbes)
		a.metrics.unloaded.Store(true)
		return
	}
	a.metrics.probes.Store(&a.probes)
	a.adoptWriters()
	a.adoptHeat()
	for _, p := range a.probes.Status() {
		if p.Reason != "" && !p.Waits && (!strings.HasPrefix(p.Object, "writers") || a.cfg.Writers.Top > 0) {
			a.log.Warn("kernel program", "program", p.Name, "attached", p.Attached, "reason", p.Reason)
		}
	}
	if a.probes.Lost() {
		a.allRecent("stamps of an earlier version could not be read")
	}
}

// allRecent is the safe answer when stamps were lost: whatever is on record may
// have been used until now.
func (a *Agent) allRecent(why string) {
	a.log.Warn("last-use stamps were lost; every image counts as used until now", "reason", why)
	for id, r := range a.rec.Images {
		r.LastUsed = a.clock.now()
		a.rec.Images[id] = r
	}
}

func (a *Agent) purgeNoted() {
	if a.probes == nil {
		return
	}
	if before := a.clock.boot() - notedFor; before > 0 {
		if err := a.probes.Purge(uint64(before)); err != nil {
			a.log.Debug("purge noted uses", "error", err)
		}
	}
}
