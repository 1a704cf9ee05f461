package nodes_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// TestInventories: which are believed, and which have a machine.
func TestInventories(t *testing.T) {
	machine := func(name, id string) func(*nodes.Inventory) {
		return func(l *nodes.Inventory) { l.Machines = append(l.Machines, nodes.Machine{Name: name, ProviderID: id}) }
	}
	at := noon.Add(nodes.WatchFor)
	for _, test := range []struct {
		why    gc.Reason
		change func(*nodes.Inventory)
	}{
		{nodes.NotInInventory, func(*nodes.Inventory) {}},
		{nodes.NotInInventory, machine("another", "metal://rack/another")},
		{nodes.NotInInventory, machine("dead-2", "dead")}, // an ID is no name
		{nodes.NotInInventory, func(l *nodes.Inventory) { l.Time = at.Add(nodes.Ahead) }},
		{nodes.NotInInventory, func(l *nodes.Inventory) { l.Time = at.Add(-30 * time.Minute) }},
		{nodes.InInventory, machine("dead", "")},
		{nodes.InInventory, machine("Dead.example.com", "")},
		{nodes.InInventory, machine("renamed", "metal://rack/dead-id")},
		{nodes.InInventory, machine("", "DEAD-ID")},
		{nodes.InInventory, machine("dead", "metal://rack/another")}, // another machine has the name
		{nodes.InventoryUnknown, nil},
		{nodes.InventoryFuture, func(l *nodes.Inventory) { l.Time = at.Add(nodes.Ahead + 1) }},
		{nodes.InventoryFuture, func(l *nodes.Inventory) { l.Time = at.AddDate(9, 0, 0) }},
		{nodes.InventoryOld, func(l *nodes.Inventory) { l.Time = at.Add(-30*time.Minute - 1) }},
		{nodes.InventoryOld, func(l *nodes.Inventory) { l.Time = time.Time{} }},
		{nodes.InventoryEmpty, func(l *nodes.Inventory) { l.Machines = nil }},
		{nodes.InventoryPartial, func(l *nodes.Inventory) { l.Machines = l.Machines[1:] }},
		{nodes.InventoryPartial, func(l *nodes.Inventory) { l.Machines[3].Name = "ready-3.example.com" }}, // of another cluster?
		{nodes.InventoryPartial, func(l *nodes.Inventory) {
			for i := range l.Machines {
				l.Machines[i] = nodes.Machine{Name: fmt.Sprint("other-", i)}
			}
		}},
	} {
		s := newScene(t, nil).known()
		a := s.ask(nodes.WatchFor, gc.Inventory)
		list := s.list
		list.Machines = slices.Clone(list.Machines)
		if test.change == nil {
			s.c.Surveyed(s.now, a.ID, nil)
		} else {
			test.change(&list)
			s.c.Surveyed(s.now, a.ID, &list)
		}
		if got := s.reason(); got != test.why {
			t.Errorf("%s, not %s, of %+v", got, test.why, list)
		}
		if test.why == nodes.NotInInventory {
			s.ask(0, gc.Verify)
			continue
		}
		if plan, n := s.c.Planned(s.now.AddDate(1, 0, 0), 5); n != 0 {
			t.Errorf("%s: %+v", test.why, plan)
		}
		wait := nodes.AskAgain
		if test.change == nil {
			wait = 5 * time.Second
		}
		if next := s.c.Next(); !next.Equal(s.now.Add(wait)) {
			t.Errorf("%s: next at %v after %v", test.why, next, next.Sub(s.now))
		}
		if got := s.c.Ready(s.now.Add(wait-1), 10); len(got) > 0 {
			t.Errorf("%s: %+v", test.why, got)
		}
		s.ask(wait, gc.Inventory)
	}
}

// TestShrunken: an inventory must be nearly as large as the last one that was believed, and
// as all Nodes; but one machine may always be missing.
func TestShrunken(t *testing.T) {
	for missing, want := range map[int]gc.Reason{0: nodes.InInventory, 1: nodes.InInventory, 20: nodes.InInventory, 21: nodes.InventoryShrunken, 90: nodes.InventoryShrunken} {
		s := newScene(t, nil).known()
		s.list.Machines = append(s.list.Machines, nodes.Machine{Name: "dead"})
		small := slices.Clone(s.list.Machines)
		for i := range 89 {
			m := nodes.Machine{Name: fmt.Sprint("other-", i)}
			s.list.Machines = append(s.list.Machines, m)
			if i < 89-missing {
				small = append(small, m)
			}
		}
		s.cleared()
		s.list.Machines = small
		a := s.ask(nodes.AskAgain, gc.Inventory)
		s.c.Surveyed(s.now, a.ID, &s.list)
		if got := s.reason(); got != want {
			t.Errorf("%d of 100 missing: %s, not %s", missing, got, want)
		}
	}
	s := newScene(t, nil)
	for i := range 3 { // not ready, too: four of fourteen are not there
		s.observe(fmt.Sprint("away-", i), nodes.Node{Since: old, Created: old})
	}
	s.known()
	s.cleared()
	if got := s.reason(); got != nodes.InventoryShrunken {
		t.Errorf("four of fourteen Nodes missing: %s", got)
	}
	for n, want := range map[int]gc.Reason{1: nodes.NotInInventory, 0: nodes.InventoryUnproven} { // the smallest clusters
		s := newScene(t, nil)
		s.observe("dead", s.dead)
		if n > 0 {
			s.observe("ready-0", nodes.Node{Ready: true, Created: old, Since: old})
		}
		for _, t := range []gc.Type{nodeType, leaseType, attachmentType} {
			s.c.Synced(s.now, t)
		}
		s.list.Machines = []nodes.Machine{{Name: "ready-0"}}
		s.cleared()
		if got := s.reason(); got != want {
			t.Errorf("%d ready and one not: %s, not %s", n, got, want)
		}
	}
}
