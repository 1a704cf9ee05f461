package orphans

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// widest is how far one long name may push the columns behind it.
const widest = 60

// WriteText writes a report for a person: a row for each finding, why, and the command.
func WriteText(w io.Writer, r Report) error {
	rows := [][]string{{"NAMESPACE", "OBJECT", "REASON", "AGE", "BY"}}
	for _, f := range r.Findings {
		age := "<unknown>"
		if f.Since != nil {
			age = duration.HumanDuration(r.Time.Sub(*f.Since))
		}
		rows = append(rows, []string{or(f.Object.Namespace, "-"), f.Object.Resource + "/" + f.Object.Name, f.Reason, age, or(f.By, "-")})
	}
	var b strings.Builder
	if len(r.Findings) > 0 {
		widths := measure(rows)
		for i, row := range rows {
			line(&b, row, widths)
			if i > 0 {
				explain(&b, r.Findings[i-1])
			}
		}
		b.WriteByte('\n')
	}
	verdict(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func measure(rows [][]string) (widths [5]int) {
	for _, row := range rows {
		for i := range row {
			row[i] = fault.Clean(row[i])
			if n := utf8.RuneCountInString(row[i]); n <= widest {
				widths[i] = max(widths[i], n)
			}
		}
	}
	return widths
}

func line(b *strings.Builder, row []string, widths [5]int) {
	for i, s := range row {
		b.WriteString(s)
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(s))+3))
		}
	}
	b.WriteByte('\n')
}

func explain(b *strings.Builder, f Finding) {
	fmt.Fprintf(b, "  %s\n", fault.Clean(f.Why))
	switch {
	case f.Command != "" && f.Looks:
		fmt.Fprintf(b, "  look: %s\n", f.Command)
	case f.Command != "":
		fmt.Fprintf(b, "  fix: %s\n", f.Command)
	case len(f.Arguments) > 0:
		b.WriteString("  a shell cannot take its name; the arguments of kubectl are in -o json\n")
	}
}

func verdict(b *strings.Builder, r Report) {
	if !r.Complete {
		b.WriteString("INCOMPLETE. Not seen:\n")
		preview.WriteNotSeen(b, r.NotSeen)
		b.WriteByte('\n')
	}
	if n := len(r.Findings); n == 0 {
		b.WriteString("Nothing was found.")
	} else {
		fmt.Fprintf(b, "Found: %d.", n)
	}
	fmt.Fprintf(b, " Looked at %d objects of %d types at %s. Nothing was changed.\n", r.Objects, r.Types, r.Time.UTC().Format(time.RFC3339))
}

// WriteNames writes the objects of the findings as kubectl takes them: one per line, each once. A
// name with special characters is quoted for a shell; a name that no shell can be given is left
// out.
func WriteNames(w io.Writer, r Report) error {
	seen := make(map[Object]bool)
	var b strings.Builder
	for _, f := range r.Findings {
		if seen[f.Object] {
			continue
		}
		seen[f.Object] = true
		if name := word(f.Object.Resource + "/" + f.Object.Name); name != "" {
			b.WriteString(name + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
