package node

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/reclaim"
	"github.com/ebb-agent/ebb/agent/node/show"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// pageStatus returns the state of the agent and its node. The caller adds how much may be removed.
func (p *parts) pageStatus(l *looks) page.Status {
	s := page.Status{
		Time: p.now(), Node: program.NodeName(), Version: program.Version(), Mode: string(p.cfg.Mode), Paused: pageOf(p.switches.Paused()),
		Ready: true, Degraded: p.conditions.Names(), Filesystems: p.pageFilesystems(),
		Looked: clock.OrNil(l.shown.asked), LastRun: p.reclaim.LastRun(), Running: p.reclaim.Running(), Observed: p.reclaim.Observed(),
	}
	if why := p.health.notReady.Load(); why != nil {
		s.Ready, s.NotReady = false, *why
	}
	if l.shown.inv == nil {
		return s
	}
	s.Images.Total = len(l.shown.inv.Images)
	for _, i := range l.shown.inv.Images {
		if p.lastUse.Image(i.ID).Again > 0 {
			s.Images.PulledAgain++
		}
	}
	return s
}

// pageFilesystems reads all watched filesystems, and returns them, that of the images first.
func (p *parts) pageFilesystems() []page.Filesystem {
	list := []page.Filesystem{}
	for _, f := range p.watermark.Filesystems() {
		p.watermark.Refresh(f)
		d := f.Disk
		one := page.Filesystem{
			Names: f.Names, Path: f.Path, Type: f.Type, Device: f.Device(), Kernel: f.Kernel,
			CapacityBytes: d.CapacityBytes, AvailableBytes: d.AvailableBytes, UsedPercent: f.UsedPercent(), HighPercent: f.Thresholds.HighPercent,
			Inodes: d.Inodes, InodesAvailable: d.InodesAvailable, InodesUsedPercent: f.InodesUsedPercent(), InodesHighPercent: f.Thresholds.InodesHighPercent,
			Hold: show.Hold(p.reclaim.Hold(f)),
		}
		one.FullInSeconds, one.InodesGoneInSeconds = f.FullIn(p.sources.Boot())
		if f.HoldsImages() {
			one.LowPercent, one.InodesLowPercent = f.Thresholds.LowPercent, f.Thresholds.InodesLowPercent
		}
		if f.Project.Limited {
			id := f.Project.ID
			one.Project = &id
		}
		list = append(list, one)
	}
	rank := func(f page.Filesystem) int {
		if slices.Contains(f.Names, watermark.Images) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(f, g page.Filesystem) int { return cmp.Compare(rank(f), rank(g)) })
	return list
}

// pagePast returns how full the filesystems were in the last day.
func (p *parts) pagePast() page.Past {
	now, boot := p.now(), p.sources.Boot()
	past := page.Past{Time: now, Filesystems: []page.PastUsage{}}
	for _, f := range p.watermark.Filesystems() {
		usage := page.PastUsage{Names: f.Names, Path: f.Path, Samples: []page.Sample{}}
		for _, s := range f.Past() {
			usage.Samples = append(usage.Samples, page.Sample{Time: now.Add(s.At - boot), UsedPercent: s.Used, InodesUsedPercent: s.Inodes})
		}
		past.Filesystems = append(past.Filesystems, usage)
	}
	return past
}

func pageOf(p *state.Pause) *page.Pause {
	if p == nil {
		return nil
	}
	return &page.Pause{Since: p.Since, Until: p.Until, By: p.By, Reason: p.Reason}
}

// view returns a snapshot for the pages about images, with the last uses as of now.
func (p *parts) view(inv *inventory.Inventory, listed time.Time, read map[string]float64) show.View {
	p.lastUse.Harvest()
	return show.View{
		Time: p.now(), Looked: listed, Mode: string(p.cfg.Mode), Paused: pageOf(p.switches.Paused()),
		Listed: slices.Clone(inv.Images), // a run deletes what it has removed from it
		Graph:  inv.Graph, Known: p.lastUse.Known(), Records: p.lastUse.Records(), Read: read,
	}
}

// pagePlan returns the page of a plan: what would be removed, and what stays.
func pagePlan(v show.View, a reclaim.Answer) page.Plan {
	plan := v.Plan(a.Plan)
	plan.Filesystem, plan.Frees, plan.Most = a.Path, page.Size(a.Frees), page.Size(a.Most)
	return plan
}
