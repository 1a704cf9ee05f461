package pods

import "github.com/ebb-agent/ebb/policy/gc"

// count adds p to everything that decides whether it is kept: the groups with a limit, and
// the Pods of its Node that would be deleted with the Node.
func (c *Collector) count(p *pod) {
	if p.space.kept != "" {
		return
	}
	if p.node != nil && !p.futile() {
		p.flags |= wanting
		p.node.wanting++
		if p.is(refused) {
			p.node.refused++
		}
	}
	if !p.over() || p.is(terminating) {
		return
	}
	for slot := range len(p.task.places) {
		if g, keep := c.group(p, slot, true); g != nil {
			g.add(p.task, keep, c.moved)
		}
	}
}

// uncount undoes count. It must be called before p changes.
func (c *Collector) uncount(p *pod) {
	if p.is(wanting) {
		p.flags &^= wanting
		p.node.wanting--
		if p.is(refused) {
			p.node.refused--
		}
	}
	if p.task == nil {
		return
	}
	for slot, place := range p.task.places {
		if place == 0 {
			continue
		}
		g, keep := c.group(p, slot, false)
		if g.remove(p.task, keep, c.moved); g.len() > 0 {
			continue
		}
		switch slot {
		case inNamespace:
			p.space.groups[p.phase-succeeded] = nil
		case inOwner:
			delete(c.owners[p.phase-succeeded], p.task.owner)
		}
	}
}

// moved is called for a Pod that became one too many, or is so no longer.
func (c *Collector) moved(t *task) { c.plan(t.pod) }

// group returns the group of an ended Pod, and how many Pods it keeps; nil if there is no
// limit. If fresh is set, a missing group is created.
func (c *Collector) group(p *pod, slot int, fresh bool) (g *group, keep int) {
	ended, limits := p.phase-succeeded, c.config.Succeeded
	if p.phase == failed {
		limits = c.config.Failed
	}
	switch slot {
	case inAll:
		if c.config.Keep > 0 {
			return c.all, c.config.Keep
		}
	case inNamespace:
		if keep = limits.PerNamespace; keep <= 0 {
			return nil, 0
		}
		if g = p.space.groups[ended]; g == nil && fresh {
			g = newGroup(inNamespace)
			p.space.groups[ended] = g
		}
	case inOwner:
		if keep = limits.PerOwner; keep <= 0 || p.task.owner == (gc.UID{}) {
			return nil, 0
		}
		if g = c.owners[ended][p.task.owner]; g == nil && fresh {
			g = newGroup(inOwner)
			c.owners[ended][p.task.owner] = g
		}
	}
	return g, keep
}
