package show

import (
	"cmp"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// inOrder iterates over a map in the order of its keys.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// HistoryFilter chooses entries.
type HistoryFilter struct {
	Image string        // part of a name or ID; "": all
	Since time.Duration // older entries are left out; 0: no limit
	Limit int           // entries of each node; 0: no limit
}

// Matches reports whether an entry is of the chosen image.
func (f HistoryFilter) Matches(e page.HistoryEntry) bool {
	if f.Image == "" {
		return true
	}
	return strings.Contains(e.ID, f.Image) || slices.ContainsFunc(e.Names, func(n string) bool { return strings.Contains(n, f.Image) })
}

// Past reports whether an entry is too old. now is the time of its node's page. Entries come newest
// first, so all that follow are too old as well.
func (f HistoryFilter) Past(now time.Time, e page.HistoryEntry) bool {
	return f.Since > 0 && now.Sub(e.Time) > f.Since
}

// History shows what agents removed and refused, newest first. Clocks of nodes differ, so it compares
// ages, each by the clock of its node.
func History(w io.Writer, v View, nodes []Node[page.History]) error {
	t := &text{View: v}
	type entry struct {
		page.HistoryEntry
		node string
		now  time.Time
	}
	var all []entry
	for _, n := range answered(nodes) {
		for _, e := range n.Page.Entries {
			all = append(all, entry{e, n.Name, n.Page.Time})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.now.Sub(a.Time), b.now.Sub(b.Time)), cmp.Compare(a.node, b.node))
	})
	h := historyTable()
	for _, e := range all {
		node := e.node
		if len(nodes) == 1 {
			node = ""
		}
		h.add(historyCells(node, e.now, e.HistoryEntry)...)
	}
	if len(all) == 0 {
		t.line("No entries.")
	} else {
		h.write(t, "")
	}
	silent(t, nodes)
	_, err := io.WriteString(w, t.String())
	return err
}

func historyTable() *table {
	return newTable(column{name: "NODE", empty: true}, column{name: "AGO", right: true}, column{name: "KIND", spare: 4}, column{name: "WHAT", tail: true},
		column{name: "OUTCOME"}, column{name: "FREED", spare: 1, right: true}, column{name: "REASON", spare: 3}, column{name: "BY", spare: 6}, column{name: "DETAIL", spare: 7})
}

func historyCells(node string, now time.Time, e page.HistoryEntry) []string {
	freed := ""
	switch {
	case e.FreedBytes != nil:
		freed = size(*e.FreedBytes)
	case e.ComputedBytes > 0 && slices.Contains([]string{page.OutcomeRemoved, page.OutcomeWould, page.OutcomeOthers}, e.Outcome):
		freed = "~" + size(e.ComputedBytes)
	}
	return []string{node, age(now, e.Time), e.Kind, historyName(e), e.Outcome, freed, e.Reason, e.By, cmp.Or(e.Error, e.Detail)}
}

func historyName(e page.HistoryEntry) string {
	if e.Kind == "image" {
		return imageName(e.ID, e.Names)
	}
	if len(e.Names) > 0 {
		return e.Names[0]
	}
	return shortID(e.ID)
}

// HistoryNames returns the name of the object of each entry.
func HistoryNames(nodes []Node[page.History]) (names []string) {
	for _, n := range answered(nodes) {
		for _, e := range n.Page.Entries {
			names = append(names, historyName(e))
		}
	}
	return names
}
