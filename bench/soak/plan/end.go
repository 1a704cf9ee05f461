package plan

import (
	"fmt"
	"slices"
)

// remove deletes an object, with a policy that is often used for its kind. Sometimes the object
// still counts as present, so that it may be deleted once more with another policy.
func (g *Generator) remove() Op {
	s := g.pick()
	for range 4 { // prefer owners
		if s == nil || len(s.dependents) > 0 {
			break
		}
		s = g.pick()
	}
	if s == nil {
		return g.newObject()
	}
	policy := ""
	switch p := g.rand.IntN(100); {
	case s.Kind.Kind == "Job" && p < 70:
	case p < 40:
		policy = Background
	case p < 65:
		policy = Foreground
	case p < 85:
		policy = Orphan
	}
	again := g.rand.IntN(20) == 0
	if !again {
		g.end(s, policy == Orphan || policy == "" && s.Kind.Kind == "Job")
	}
	return g.op(Op{Verb: Delete, Slot: &s.Slot, Policy: policy})
}

// finish ends an object of a type that has a collector. The object is collected some time later, or
// stays.
func (g *Generator) finish() Op {
	for range 64 {
		s := g.pick()
		if s == nil || s.going {
			continue
		}
		switch s.Kind.Kind {
		case "Pod", "Job":
			g.end(s, false)
		case "CertificateSigningRequest", "PersistentVolume", "Lease":
		default:
			continue
		}
		return g.op(Op{Verb: Finish, Slot: &s.Slot, Way: g.rand.IntN(12)})
	}
	return g.newObject()
}

// end records that the object in a slot is deleted, and so are the dependents that go with it.
func (g *Generator) end(s *slot, orphan bool) {
	if s.held {
		s.going = true // until its finalizer is lifted
	} else {
		g.gone(s)
	}
	dependents := s.dependents
	s.dependents = nil
	for _, d := range dependents {
		before := len(d.owners)
		d.owners = slices.DeleteFunc(d.owners, func(o *slot) bool { return o == s })
		if !orphan && before > 0 && len(d.owners) == 0 && d.there && !d.going {
			g.end(d, false)
		}
	}
}

func (g *Generator) gone(s *slot) {
	if !s.there {
		return
	}
	s.there, s.going, s.held = false, false, false
	last := g.alive[len(g.alive)-1]
	g.alive[s.at], last.at = last, s.at
	g.alive = g.alive[:len(g.alive)-1]
}

func (g *Generator) lift() Op {
	start := 0
	if len(g.alive) > 0 {
		start = g.rand.IntN(len(g.alive))
	}
	for i := range g.alive {
		if s := g.alive[(start+i)%len(g.alive)]; s.held {
			s.held = false
			if s.going {
				g.gone(s)
			}
			return g.op(Op{Verb: Lift, Slot: &s.Slot})
		}
	}
	return g.newObject()
}

func (g *Generator) newSpace() Op {
	g.made++
	name := fmt.Sprintf("%s%d", churned, g.made)
	g.churn = append(g.churn, name)
	return g.op(Op{Verb: NewSpace, Namespace: name})
}

func (g *Generator) endSpace() Op {
	i := g.rand.IntN(len(g.churn))
	name := g.churn[i]
	g.churn = slices.Delete(g.churn, i, i+1)
	for _, s := range g.byName[name] {
		g.gone(s)
		for _, o := range s.owners {
			o.dependents = slices.DeleteFunc(o.dependents, func(d *slot) bool { return d == s })
		}
	}
	delete(g.byName, name)
	return g.op(Op{Verb: EndSpace, Namespace: name})
}
