package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// Plans shows which images would be removed from nodes, and which are kept: as counts by reason or,
// with keep, one by one.
func Plans(w io.Writer, v View, nodes []Node[page.Plan], keep bool) error {
	t := &text{View: v}
	blocks(t, answered(nodes), func(n Node[page.Plan]) { planInFull(t, n, keep) }, func(n Node[page.Plan]) {
		t.hang("  "+Clean(n.Name)+"  ", planLine(n.Page))
	})
	if len(nodes) > 1 {
		planTotals(t, answered(nodes))
	}
	silent(t, nodes)
	_, err := io.WriteString(w, t.String())
	return err
}

// Unmet counts the plans that cannot free the wanted amount.
func Unmet(nodes []Node[page.Plan]) (n int) {
	for _, node := range answered(nodes) {
		n += count(node.Page.Hold != nil)
	}
	return n
}

// PlanNames returns the names of the images that would be removed.
func PlanNames(nodes []Node[page.Plan]) (names []string) {
	for _, n := range answered(nodes) {
		for _, i := range n.Page.Remove {
			names = append(names, imageName(i.ID, i.References))
		}
	}
	return names
}

func planLine(p page.Plan) string {
	switch {
	case p.Need == (page.Size{}) && len(p.Remove) == 0:
		return "nothing has to be removed"
	case p.Hold != nil:
		return fmt.Sprintf("%s would be removed and free %s; at most %s can be freed, of %s wanted", plural(len(p.Remove), "image"), takes(p.Frees), takes(p.Most), wanted(p.Need))
	}
	return fmt.Sprintf("%s would be removed and free %s, of %s wanted", plural(len(p.Remove), "image"), takes(p.Frees), wanted(p.Need))
}

// wanted formats what has to become available. It leaves out bytes or inodes if none are needed.
func wanted(s page.Size) string {
	switch {
	case s.Bytes == 0 && s.Inodes > 0:
		return plural(s.Inodes, "inode")
	case s.Bytes == 0:
		return "nothing"
	}
	return takes(s)
}

func planInFull(t *text, n Node[page.Plan], keep bool) {
	p := n.Page
	t.line("%s: %s.", Clean(n.Name), planLine(p))
	t.hang("  ", fmt.Sprintf("Images are on %s, %s.", Clean(p.Filesystem), asOf(p.Time, p.Looked, p.Mode, p.Paused)))
	if len(p.Remove) > 0 {
		list := newTable(column{name: "#", right: true}, column{name: "IMAGE", tail: true}, column{name: "FREES", right: true}, column{name: "INODES", spare: 3, right: true},
			column{name: "LAST USED", spare: 1, right: true}, column{name: "REASON", spare: 2})
		for at, i := range p.Remove {
			used := ageOf(p.Time, i.LastUsed)
			if used == "" {
				used = "never seen"
			}
			list.add(fmt.Sprint(at+1), imageName(i.ID, i.References), size(i.FreesBytes), fmt.Sprint(i.FreesInodes), used, i.Reason)
		}
		list.write(t, "  ")
	}
	if p.Hold != nil {
		t.WriteString("  What holds the rest:\n")
		heldBy(t, p.Hold.HeldBy)
	}
	planKept(t, p, keep)
}

func heldBy(t *text, list []page.HeldBy) {
	held := newTable(column{name: "BY"}, column{name: "IMAGES", right: true, spare: 2}, column{name: "SIZE", right: true}, column{name: "INODES", right: true, spare: 1})
	for _, h := range list {
		images, inodes := "", ""
		if h.Images > 0 {
			images = fmt.Sprint(h.Images)
		}
		if h.Inodes > 0 {
			inodes = fmt.Sprint(h.Inodes)
		}
		held.add(h.By, images, size(h.Bytes), inodes)
	}
	held.write(t, "    ")
}

func planKept(t *text, p page.Plan, each bool) {
	if len(p.Keep) == 0 {
		return
	}
	t.WriteString("  " + stay(len(p.Keep)) + ":\n")
	if each {
		list := newTable(column{name: "IMAGE", tail: true}, column{name: "REASON"}, column{name: "WHY", spare: 1, wrap: true})
		for _, i := range p.Keep {
			list.add(imageName(i.ID, i.References), i.Reason, i.Detail)
		}
		list.write(t, "    ")
		return
	}
	counts := make(map[string]int)
	for _, i := range p.Keep {
		counts[i.Reason]++
	}
	list := newTable(column{name: "REASON"}, column{name: "IMAGES", right: true})
	for _, reason := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		list.add(reason, fmt.Sprint(counts[reason]))
	}
	list.write(t, "    ")
}

func stay(n int) string {
	if n == 1 {
		return "1 image stays"
	}
	return fmt.Sprintf("%d images stay", n)
}

func planTotals(t *text, nodes []Node[page.Plan]) {
	images, frees := 0, page.Size{}
	for _, n := range nodes {
		images += len(n.Page.Remove)
		frees = add(frees, n.Page.Frees)
	}
	t.WriteByte('\n')
	t.line("On %s, %s would be removed and free %s.", plural(len(nodes), "node"), plural(images, "image"), takes(frees))
}
