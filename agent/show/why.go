package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// WhyReport is what nodes answer about one image.
type WhyReport struct {
	Name  string            // as the user gave it
	Nodes []Node[page.Why]  // nodes that have the image, or did not answer
	Not   []string          // nodes that do not have it
	Many  map[string]string // nodes where the name is ambiguous, with the agent's text
}

// Document is the report for scripts.
func (r WhyReport) Document() (any, error) {
	d, err := NewDocument(r.Nodes)
	return struct {
		Document
		Not  []string          `json:"notOn"`
		Many map[string]string `json:"ambiguousOn,omitempty"`
	}{d, append([]string{}, r.Not...), r.Many}, err
}

// Names are the names by which the nodes know the image.
func (r WhyReport) Names() (names []string) {
	for _, n := range answered(r.Nodes) {
		names = append(names, imageName(n.Page.Image.ID, n.Page.Image.References))
	}
	return names
}

// Why shows a report.
func Why(w io.Writer, v View, r WhyReport) error {
	t := &text{View: v}
	blocks(t, answered(r.Nodes), func(n Node[page.Why]) { whyInFull(t, n) }, func(n Node[page.Why]) {
		t.hang("  "+Clean(n.Name)+"  ", verdict(n.Page.Image)+": "+Clean(n.Page.Image.Detail))
	})
	if len(r.Not) > 0 {
		if t.Len() > 0 {
			t.WriteByte('\n')
		}
		t.line("No image %s on %s.", Clean(r.Name), names(r.Not))
	}
	for node, matches := range inOrder(r.Many) {
		t.hang(Clean(node)+": ", Clean(matches))
	}
	silent(t, r.Nodes)
	_, err := io.WriteString(w, t.String())
	return err
}

// names joins the first 10 names of a list, and appends how many more there are.
func names(list []string) string {
	const most = 10
	var parts []string
	for i, n := range list {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
		parts = append(parts, Clean(n))
	}
	return strings.Join(parts, ", ")
}

func verdict(i page.Image) string {
	word := map[string]string{"keep": "stays", "remove": "goes"}[i.Verdict]
	if word == "" {
		word = Clean(i.Verdict)
	}
	return word + ", " + Clean(i.Reason)
}

func whyInFull(t *text, n Node[page.Why]) {
	p, i := n.Page, n.Page.Image
	t.line("%s on %s", Clean(imageName(i.ID, i.References)), Clean(n.Name))
	t.field("verdict", "%s: %s", verdict(i), Clean(i.Detail))
	t.field("as of", "%s", asOf(p.Time, p.Looked, p.Mode, p.Paused))
	t.field("ID", "%s", Clean(i.ID))
	if len(i.References) > 1 {
		t.field("names", "%s", names(i.References))
	}
	t.field("last used", "%s; arrived %s ago%s", whyUsed(p), age(p.Time, i.Arrived), again(i.PulledAgain))
	t.field("takes", "%s; own %s, shared %s; by the kubelet's count %s%s", takes(i.Total), takes(i.Own), takes(i.Shared), size(i.KubeletBytes), unmeasuredLayers(i.Unmeasured))
	if i.ReadPercent != nil {
		t.field("read", "%.0f%% of its bytes were ever read", *i.ReadPercent)
	}
	if p.Place > 0 {
		t.field("place", "%d of %d that may be removed; frees %s alone, %s in its turn", p.Place, p.Of, takes(i.Own), takes(p.InTurn))
	} else {
		t.field("place", "none: it may not be removed; %d others may", p.Of)
	}
	whyRules(t, p)
	whyHistory(t, p)
}

func whyUsed(p page.Why) string {
	switch i := p.Image; {
	case len(i.UsedBy) > 0:
		now := "now, by " + names(i.UsedBy)
		if strings.HasPrefix(i.LastUser, "pod ") {
			now += "; the latest user is " + Clean(i.LastUser)
		}
		return now
	case i.LastUsed != nil && i.LastUser != "":
		return age(p.Time, *i.LastUsed) + " ago, by " + Clean(user(i))
	case i.LastUsed != nil:
		return age(p.Time, *i.LastUsed) + " ago"
	}
	return "never seen"
}

func again(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; came back within a day of its removal: %d times", n)
}

func unmeasuredLayers(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (at least: the runtime does not know the size of %s)", plural(n, "layer"))
}

// readable is the least width at which sentences fit beside other columns.
const readable = 64

func whyRules(t *text, p page.Why) {
	t.WriteByte('\n')
	t.hang("  ", "Rules, in the order in which they are checked:")
	list := newTable(column{name: "RULE"}, column{name: "STATE"}, column{name: "WHY", wrap: true})
	for _, r := range p.Rules {
		why := r.Text
		if r.Changes != nil {
			why += " (changes " + in(p.Time, *r.Changes) + ")"
		}
		if t.Width > 0 && t.Width < readable {
			t.hang("    ", Clean(r.Reason+", "+r.State+": "+why))
			continue
		}
		list.add(r.Reason, r.State, why)
	}
	if len(list.rows) > 0 {
		list.write(t, "    ")
	}
}

func whyHistory(t *text, p page.Why) {
	if len(p.History) == 0 {
		return
	}
	t.WriteString("\n  History, newest first:\n")
	h := historyTable()
	for _, e := range p.History {
		h.add(historyCells("", p.Time, e)...)
	}
	h.write(t, "    ")
}
