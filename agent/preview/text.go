package preview

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
)

// WriteText writes an answer for a person: what is deleted, the tree, and the sums.
func WriteText(w io.Writer, a Answer) error {
	t := &text{kinds: make(map[string]string), nodes: make(map[string]*preview.Node)}
	t.learn(a.Root)
	for _, n := range a.Released {
		t.learn(n)
	}
	t.tree(a.Root, "", "", "\x00")
	if len(a.Released) > 0 {
		t.rows = append(t.rows, row{}, row{left: "These wait for it, and are released:"})
		for _, n := range a.Released {
			t.rows = append(t.rows, row{"  " + t.label(n, "\x00"), t.outcomeOf(n)})
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Deleting %s with policy %s would do this:\n\n", t.full(a.Root.Object), strings.ToLower(string(a.Policy)))
	t.write(&b)
	b.WriteString("\n")
	t.sums(&b, a)
	_, err := io.WriteString(w, b.String())
	return err
}

type row struct{ left, right string }

type text struct {
	rows  []row
	kinds map[string]string // kind: its apiVersion, "" if there are several
	nodes map[string]*preview.Node
}

// learn notes the nodes of the tree, and which kinds are ambiguous without their group.
func (t *text) learn(n *preview.Node) {
	if v, ok := t.kinds[n.Kind]; !ok {
		t.kinds[n.Kind] = n.APIVersion
	} else if v != n.APIVersion {
		t.kinds[n.Kind] = ""
	}
	t.nodes[n.UID] = n
	for _, d := range n.Dependents {
		t.learn(d)
	}
}

// tree adds a node and what is below it. above is the namespace of the line above.
func (t *text) tree(n *preview.Node, first, rest, above string) {
	t.rows = append(t.rows, row{first + t.label(n, above), t.outcomeOf(n)})
	last := len(n.Dependents) + len(n.More) - 1
	branch := func(i int) (string, string) {
		if i == last {
			return rest + "└─ ", rest + "   "
		}
		return rest + "├─ ", rest + "│  "
	}
	for i, d := range n.Dependents {
		one, others := branch(i)
		t.tree(d, one, others, n.Namespace)
	}
	for i, m := range n.More {
		one, _ := branch(len(n.Dependents) + i)
		t.rows = append(t.rows, row{one + fmt.Sprintf("… %s more %s", thousands(m.Count), clean(m.Resource)), t.outcome(m.Outcome, m.Then)})
	}
}

func (t *text) label(n *preview.Node, above string) string {
	return t.beside(n.Object, above)
}

// beside names an object, without its namespace if that is the given one.
func (t *text) beside(o preview.Object, namespace string) string {
	if o.Namespace == namespace {
		o.Namespace = ""
	}
	return t.full(o)
}

func (t *text) kind(o preview.Object) string {
	if group, _ := split(o.APIVersion); t.kinds[o.Kind] == "" && group != "" {
		if _, known := t.kinds[o.Kind]; known {
			return clean(o.Kind + "." + group)
		}
	}
	return clean(o.Kind)
}

func (t *text) full(o preview.Object) string {
	if o.Namespace == "" {
		return t.kind(o) + " " + clean(o.Name)
	}
	return t.kind(o) + " " + clean(o.Namespace) + "/" + clean(o.Name)
}

// outcomeOf returns what happens to a node, in few words.
func (t *text) outcomeOf(n *preview.Node) string {
	var s string
	switch n.Outcome {
	case preview.Deleted:
		s = "deleted" + t.order(n)
	case preview.Orphaned:
		s = "orphaned: stays"
		if len(n.Owners) > 0 {
			s += ", owned by " + t.owners(n)
		}
	case preview.Waiting:
		s = "waits for " + t.holders(n)
	default:
		s = t.kept(n)
	}
	switch n.Then {
	case "":
		if n.Outcome == preview.Waiting {
			s += "; it does not end by itself"
		}
	case preview.Deleted:
		s += "; deleted after that"
	default:
		s += "; " + string(n.Then) + " after that"
	}
	if n.Again {
		s += " (see its other owner)"
	}
	return s
}

// order returns when an object is deleted, if not at once.
func (t *text) order(n *preview.Node) string {
	switch {
	case len(n.Dependents)+len(n.More) == 0:
	case n.Policy == gc.Foreground && n.Reason == preview.AskedFor:
		return ", last"
	case n.Policy == gc.Foreground:
		return ", after its dependents"
	case n.Policy == gc.Orphan && n.Reason != preview.AskedFor:
		return ", and its dependents are orphaned (its finalizer orphan)"
	}
	return ""
}

func (t *text) holders(n *preview.Node) string {
	var what []string
	if len(n.Finalizers) > 0 {
		what = append(what, "finalizer "+clean(strings.Join(n.Finalizers, ", ")))
	}
	if len(n.HeldBy) > 0 {
		held := t.beside(n.HeldBy[0], n.Namespace)
		if more := len(n.HeldBy) - 1; more > 0 {
			held += fmt.Sprintf(" and %d more", more)
		}
		what = append(what, held)
	}
	if len(what) == 0 {
		return string(n.Reason)
	}
	return strings.Join(what, ", and for ")
}

func (t *text) kept(n *preview.Node) string {
	switch n.Reason {
	case cascade.KeptSolidOwner:
		return t.owned(n)
	case cascade.KeptUnknownOwner:
		return "stays: it is not known whether there is " + t.owners(n)
	case cascade.KeptUnresolvable:
		return "stays: it has no namespace, but its owner has: " + t.owners(n)
	case cascade.KeptTerminating:
		return "is being deleted already"
	case cascade.KeptDependents:
		return "is being deleted already, and waits for its dependents"
	case cascade.KeptExcluded:
		return "stays: excluded from collection"
	}
	return "stays: " + strings.ReplaceAll(string(n.Reason), "_", " ")
}

// owned describes an object that is kept by an owner: an owner that stays, or one in the tree that
// is deleted later.
func (t *text) owned(n *preview.Node) string {
	waits, later := "", n.Then == preview.Deleted
	for _, o := range n.Owners {
		if owner := t.nodes[o.UID]; owner != nil && owner.Outcome == preview.Waiting && waits == "" {
			waits = t.beside(o.Object, n.Namespace)
		}
	}
	switch {
	case later && waits != "":
		return "stays while " + waits + " waits"
	case later:
		return "stays with its owner"
	}
	return "stays: also owned by " + t.owners(n)
}

// owners names the first of the owners that matter, and how many more there are. Owners that stay
// are named before those that are deleted.
func (t *text) owners(n *preview.Node) string {
	want := map[gc.Reason]string{cascade.KeptSolidOwner: "solid", cascade.KeptUnknownOwner: "unknown", cascade.KeptUnresolvable: "unresolvable"}[n.Reason]
	var names []string
	for _, o := range n.Owners {
		if want == "" || o.Judgement == want || want == "solid" && o.Judgement == "orphaning" {
			name := t.beside(o.Object, n.Namespace)
			if owner := t.nodes[o.UID]; owner != nil && owner.Outcome != preview.Kept {
				names = append(names, name)
				continue
			}
			names = slices.Insert(names, 0, name)
		}
	}
	switch len(names) {
	case 0:
		return "others"
	case 1:
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

func (t *text) outcome(o, then preview.Outcome) string {
	s := map[preview.Outcome]string{preview.Kept: "stay", preview.Waiting: "wait"}[o]
	if s == "" {
		s = string(o)
	}
	if then != "" {
		s += "; " + string(then) + " after that"
	}
	return s
}

// widest is how far the right column may be pushed by one long name.
const widest = 72

func (t *text) write(b *strings.Builder) {
	width := 0
	for _, r := range t.rows {
		if n := utf8.RuneCountInString(r.left); n <= widest && r.right != "" {
			width = max(width, n)
		}
	}
	for _, r := range t.rows {
		b.WriteString(r.left)
		if r.right != "" {
			b.WriteString(strings.Repeat(" ", max(0, width-utf8.RuneCountInString(r.left))+3))
			b.WriteString(r.right)
		}
		b.WriteByte('\n')
	}
}
