package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// pressed is the filesystem of a node that is nearest to its high threshold, or farthest
// beyond it.
type pressed struct {
	page.Filesystem
	inodes     bool
	used, high int
	full       *float64
}

// pressure returns by how many percentage points the use is above the high threshold; negative if
// it is below.
func (p pressed) pressure() int { return p.used - p.high }

func (p pressed) place() string {
	name := p.Path
	if len(p.Names) > 0 {
		name = p.Names[0]
	}
	if p.inodes {
		name += " inodes"
	}
	return name
}

func mostPressed(all []page.Filesystem) (most pressed, known bool) {
	consider := func(p pressed) {
		if !known || p.pressure() > most.pressure() {
			most, known = p, true
		}
	}
	for _, f := range all {
		consider(pressed{f, false, f.UsedPercent, f.HighPercent, f.FullInSeconds})
		if f.Inodes > 0 && f.InodesHighPercent > 0 {
			consider(pressed{f, true, f.InodesUsedPercent, f.InodesHighPercent, f.InodesGoneInSeconds})
		}
	}
	return most, known
}

// ByPressure sorts nodes in place: the fullest against its threshold first, those without an answer
// last.
func ByPressure(nodes []Node[page.Status]) {
	pressure := func(n Node[page.Status]) int {
		most, known := mostPressed(n.Page.Filesystems)
		switch {
		case n.Err != nil:
			return -1000
		case !known:
			return -500
		}
		return most.pressure()
	}
	slices.SortStableFunc(nodes, func(a, b Node[page.Status]) int {
		return cmp.Or(cmp.Compare(pressure(b), pressure(a)), cmp.Compare(a.Name, b.Name))
	})
}

// Nodes shows a line for each node, in their order.
func Nodes(w io.Writer, v View, nodes []Node[page.Status]) error {
	t := &text{View: v}
	list := newTable(column{name: "NODE"}, column{name: "USED", right: true}, column{name: "HIGH", right: true}, column{name: "OF", spare: 4},
		column{name: "FULL IN", spare: 2, right: true}, column{name: "RECLAIMABLE", spare: 1, right: true}, column{name: "LAST RUN", spare: 3, right: true},
		column{name: "FREED", spare: 5, right: true}, column{name: "RE-PULLS", spare: 6, right: true})
	for _, n := range answered(nodes) {
		cells := nodeCells(n)
		if most, known := mostPressed(n.Page.Filesystems); known && most.pressure() >= 0 {
			list.alarm(cells...)
			continue
		}
		list.add(cells...)
	}
	if len(list.rows) > 0 {
		list.write(t, "")
	}
	silent(t, nodes)
	_, err := io.WriteString(w, t.String())
	return err
}

func nodeCells(n Node[page.Status]) []string {
	s := n.Page
	used, high, place, full := "unknown", "", "", ""
	if most, known := mostPressed(s.Filesystems); known {
		used, high, place = fmt.Sprintf("%d%%", most.used), fmt.Sprintf("%d%%", most.high), most.place()
		if most.full != nil {
			full = seconds(*most.full)
		}
	}
	run, freed := "", ""
	if s.LastRun != nil {
		run, freed = age(s.Time, s.LastRun.Ended), size(s.LastRun.FreedBytes)
		if s.Observed != nil {
			freed = "~" + freed // in mode observe: as computed
		}
	}
	again := ""
	if s.Images.PulledAgain > 0 {
		again = fmt.Sprint(s.Images.PulledAgain)
	}
	reclaimable := ""
	if s.ImagesUnknown == "" {
		reclaimable = size(s.Images.Reclaimable.Bytes)
	}
	return []string{n.Name, used, high, place, full, reclaimable, run, freed, again}
}
