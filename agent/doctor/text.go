package doctor

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// width is the column at which texts are wrapped.
const width = 110

const indent = "  "

// WriteText writes a report for people.
func WriteText(w io.Writer, r Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "ebb doctor on %s, Linux %s, with %s\n", r.Node, r.Kernel, cmp.Or(r.Config, "the default configuration"))
	for _, q := range questions {
		writeSection(&b, q.section, q.title, r.Checks)
	}
	if k := r.Kubelet; k != nil && k.Complete {
		b.WriteString("\nWhat the kubelet is set to\n")
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, s := range k.Settings {
			fmt.Fprintf(t, "%s%s\t%s\t%s\n", indent, s.Name, s.Value, s.From)
		}
		t.Flush()
	}
	fmt.Fprintf(&b, "\n%s\n", r.Verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

func writeSection(b *strings.Builder, id, title string, checks []Check) {
	for _, c := range checks {
		if c.Section != id {
			continue
		}
		if title != "" {
			fmt.Fprintf(b, "\n%s\n", title)
			title = "" // once
		}
		level, way := string(c.Level), "how"
		if c.Level == Warning || c.Level == Error { // what asks for action
			level, way = strings.ToUpper(level), "fix"
		}
		wrap(b, fmt.Sprintf("%s%-8s ", indent, level), c.Found)
		if c.Level == OK {
			continue // what is right needs no reason
		}
		if c.Why != "" {
			wrap(b, indent+"         why: ", c.Why)
		}
		for _, text := range c.Fix {
			wrap(b, indent+"         "+way+": ", text)
		}
	}
}

// wrap writes head and a text. Further lines are indented to the text. A number and its percent
// sign stay on one line.
func wrap(b *strings.Builder, head, text string) {
	const together = "\x00"
	at := utf8.RuneCountInString(head)
	line, hang := head, strings.Repeat(" ", at)
	for i, word := range strings.Fields(strings.ReplaceAll(text, " %", together+"%")) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > width:
			line += "\n" + hang
			at = len(hang)
		default:
			line += " "
			at++
		}
		line, at = line+word, at+n
	}
	b.WriteString(strings.ReplaceAll(line, together, " ") + "\n")
}

// Verdict returns the last line of the report.
func (r *Report) Verdict() string {
	s := r.Summary
	counts := fmt.Sprintf("%s, %s, %s, %d ok", plural(s.Errors, "error"), plural(s.Warnings, "warning"), plural(s.Notes, "note"), s.OK)
	switch {
	case s.Errors > 0:
		return counts + ": fix the errors before ebb removes anything here."
	case s.Warnings > 0:
		return counts + ": it works, but with restrictions."
	}
	return counts + ": all is well."
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
