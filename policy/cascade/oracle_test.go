package cascade

import (
	"fmt"
	"slices"

	"github.com/ebb-agent/ebb/policy/gc"
)

// outstanding is the oracle: what is left to do in the true world, found by
// looking at everything, each time anew. It knows no graph and no history.
func (s *server) outstanding() (todo []string) {
	for _, o := range s.objects {
		name := fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
		switch {
		case o.Terminating && slices.Contains(o.Finalizers, gc.OrphanFinalizer):
			if s.keptByReference(o) {
				continue
			}
			todo = append(todo, "orphan the dependents of "+name)
		case s.isWaiting(o):
			if !s.blocked(o, nil) {
				todo = append(todo, "finalize "+name)
			}
		case s.excluded(o):
		case !o.Terminating && len(o.Owners) > 0 && !s.unresolvable(o):
			todo = append(todo, s.outstandingFor(o, name)...)
		}
	}
	return todo
}

func (s *server) outstandingFor(o *stored, name string) []string {
	solid, dangling, waits := 0, 0, 0
	for _, r := range o.Owners {
		switch owner := s.owner(o, r); {
		case owner == nil:
			dangling++
		case s.isWaiting(owner):
			waits++
		default:
			solid++
		}
	}
	switch {
	case solid == 0:
		return []string{"delete " + name}
	case dangling+waits > 0:
		return []string{"tidy " + name}
	}
	return nil
}

// blocked reports whether something that the collector cannot help holds an owner:
// an unresolvable dependent.
func (s *server) blocked(o *stored, above []*stored) bool {
	if slices.Contains(above, o) {
		return s.excluded(o) // others are unblocked
	}
	for _, d := range s.objects {
		if d == o || !slices.ContainsFunc(d.Owners, func(r gc.Reference) bool { return r.UID == o.UID && r.Block && s.owner(d, r) == o }) {
			continue
		}
		if s.keptByReference(d) || s.excluded(d) && !d.Terminating || s.unresolvable(d) && !d.Terminating || s.isWaiting(d) && s.blocked(d, append(above, o)) {
			return true
		}
	}
	return false
}

// keptByReference reports whether an excluded object's reference keeps an owner that is to
// be orphaned.
func (s *server) keptByReference(o *stored) bool {
	return o.Terminating && slices.Contains(o.Finalizers, gc.OrphanFinalizer) && slices.ContainsFunc(s.objects, func(d *stored) bool {
		return d != o && s.excluded(d) && slices.ContainsFunc(d.Owners, func(r gc.Reference) bool { return r.UID == o.UID })
	})
}

// consistent compares the graph's own books with a count of everything.
func (c *Collector) consistent() error {
	backrefs := map[index]map[backref]bool{}
	blocking := map[index]uint32{}
	live := 0
	for i := index(1); i <= c.used; i++ {
		n := c.at(i)
		if n.next == 0 {
			continue
		}
		live++
		if n.flags&observed == 0 && (len(n.dependents) == 0 || len(n.owners) > 0) {
			return fmt.Errorf("node %d was never seen, has %d dependents and %d owners", i, len(n.dependents), len(n.owners))
		}
		for at, e := range n.owners {
			o := c.at(e.owner)
			if int(e.at) >= len(o.dependents) || o.dependents[e.at] != (backref{i, uint32(at)}) {
				return fmt.Errorf("node %d, owner %d: not among its dependents at %d", i, at, e.at)
			}
			if backrefs[e.owner] == nil {
				backrefs[e.owner] = map[backref]bool{}
			}
			backrefs[e.owner][backref{i, uint32(at)}] = true
			if e.block && e.owner != i {
				blocking[e.owner]++
			}
			if c.misplaced(e.owner, i) {
				return fmt.Errorf("node %d, owner %d: in the wrong namespace", i, at)
			}
		}
	}
	if live != c.live {
		return fmt.Errorf("%d nodes, counted %d", c.live, live)
	}
	return c.countsMatch(backrefs, blocking)
}

func (c *Collector) countsMatch(backrefs map[index]map[backref]bool, blocking map[index]uint32) error {
	for i := index(1); i <= c.used; i++ {
		n := c.at(i)
		if n.next == 0 {
			continue
		}
		if len(n.dependents) != len(backrefs[i]) || n.blocking != blocking[i] {
			return fmt.Errorf("node %d has %d dependents, %d blocking; counted %d, %d", i, len(n.dependents), n.blocking, len(backrefs[i]), blocking[i])
		}
		found := false
		for s := c.firstOf(i); s != 0; s = c.at(s).same {
			found = found || s == i
		}
		if !found {
			return fmt.Errorf("node %d is not found by its UID", i)
		}
	}
	return nil
}
