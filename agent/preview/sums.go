package preview

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// sums writes how many objects have which outcome, and what the tree does not show.
func (t *text) sums(b *strings.Builder, a Answer) {
	for _, s := range []struct {
		name  string
		count func(preview.Count) int
	}{
		{"deleted", func(c preview.Count) int { return c.Deleted }},
		{"orphaned", func(c preview.Count) int { return c.Orphaned }},
		{"waiting", func(c preview.Count) int { return c.Waiting }},
		{"staying", func(c preview.Count) int { return c.Kept }},
	} {
		all := 0
		var parts []string
		for _, c := range a.Counts {
			if n := s.count(c); n > 0 {
				all += n
				parts = append(parts, clean(TypeName(c.APIVersion, c.Resource))+" "+thousands(n))
			}
		}
		if all > 0 {
			fmt.Fprintf(b, "%8s %s: %s\n", thousands(all), s.name, strings.Join(parts, ", "))
		}
	}
	for _, n := range a.Notes {
		switch {
		case n.Object.Kind == "Namespace":
			fmt.Fprintf(b, "\nNamespace %s: everything in it goes, too, whoever owns it: %s objects.\n", clean(n.Object.Name), thousands(n.Content))
		default:
			fmt.Fprintf(b, "\n%s %s: all objects of its type go, too: %s.\n", clean(n.Object.Kind), clean(n.Object.Name), thousands(n.Content))
		}
	}
	if a.Pending > 0 {
		fmt.Fprintf(b, "\nThe collector has %s other objects to delete or change anyway; this is in addition.\n", thousands(a.Pending))
	}
	if !a.Complete {
		b.WriteString("\nINCOMPLETE. Not seen:\n")
		WriteNotSeen(b, a.NotSeen)
	}
	b.WriteByte('\n')
	if a.Excluded == nil {
		b.WriteString("It is not known what a running ebb-controller excludes; --config FILE names its configuration.\n")
	} else if x := slices.Concat(a.Excluded.Types, a.Excluded.Namespaces); len(x) > 0 {
		fmt.Fprintf(b, "Excluded from collection: types %s; namespaces %s.\n", list(a.Excluded.Types), list(a.Excluded.Namespaces))
	}
	fmt.Fprintf(b, "Looked at %s objects of %d types. Nothing was changed.\n", thousands(a.Objects), a.Types)
}

// list joins the first names for a person, and appends how many more there are.
func list(names []string) string {
	const most = 10
	if len(names) == 0 {
		return "none"
	}
	shown := make([]string, min(len(names), most))
	for i := range shown {
		shown[i] = clean(names[i])
	}
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), more)
	}
	return strings.Join(shown, ", ")
}

// WriteNotSeen lists types with the same reason together.
func WriteNotSeen(b *strings.Builder, list []NotSeen) {
	types := make(map[string][]string)
	var reasons []string
	for _, n := range list {
		if types[n.Why] == nil {
			reasons = append(reasons, n.Why)
		}
		types[n.Why] = append(types[n.Why], clean(n.Type))
	}
	for _, why := range reasons {
		fmt.Fprintf(b, "  %s:", clean(why))
		at := 1000
		for i, name := range types[why] {
			if i < len(types[why])-1 {
				name += ","
			}
			if at += 1 + len(name); at > 96 {
				b.WriteString("\n   ")
				at = 3 + len(name)
			}
			b.WriteString(" " + name)
		}
		b.WriteByte('\n')
	}
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// clean makes text from the API server fit for a terminal. A name has at most 253 bytes.
func clean(s string) string { return fault.CleanUpTo(s, 260) }
