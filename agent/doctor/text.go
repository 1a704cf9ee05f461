package doctor

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// width is where texts break; a check's own line is not broken before it.
const width = 110

// sections are the headings, in order.
var sections = []struct{ id, title string }{
	{"kubelet", "Beside the kubelet"},
	{"lines", "ebb's lines and the eviction manager's"},
	{"runtime", "Container runtime"},
	{"disks", "Disks"},
	{"kernel", "Kernel"},
	{"agent", "Agent"},
}

// levelWords stand in one column. What asks for action is in capitals.
var levelWords = map[Level]string{OK: "ok", Note: "note", Warning: "WARNING", Error: "ERROR"}

const indent = "  "

// WriteText writes a report for people.
func WriteText(w io.Writer, r Report) error {
	var b strings.Builder
	from := r.Config
	if from == "" {
		from = "the default configuration"
	}
	fmt.Fprintf(&b, "ebb doctor on %s, Linux %s, with %s\n", r.Node, r.Kernel, from)
	for _, s := range sections {
		writeSection(&b, s.id, s.title, r.Checks)
	}
	writeSettings(&b, r.Kubelet)
	fmt.Fprintf(&b, "\n%s\n", r.Verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

func writeSection(b *strings.Builder, id, title string, checks []Check) {
	begun := false
	for _, c := range checks {
		if c.Section != id {
			continue
		}
		if !begun {
			fmt.Fprintf(b, "\n%s\n", title)
			begun = true
		}
		head := fmt.Sprintf("%s%-8s ", indent, levelWords[c.Level])
		wrap(b, head, c.Found)
		if c.Level != OK { // what is right needs no reason
			writeReason(b, c)
		}
	}
}

func writeReason(b *strings.Builder, c Check) {
	way := "fix"
	if c.Level == Note {
		way = "how" // nothing is broken
	}
	if c.Why != "" {
		wrap(b, indent+"         why: ", c.Why)
	}
	for _, text := range c.Fix {
		wrap(b, indent+"         "+way+": ", text)
	}
}

// wrap writes a text after its head, further lines below the text.
func wrap(b *strings.Builder, head, text string) {
	b.WriteString(head)
	at, begun := utf8.RuneCountInString(head), false
	hang := strings.Repeat(" ", at)
	for _, word := range words(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case !begun:
		case at+1+n > width:
			b.WriteString("\n" + hang)
			at = len(hang)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
		begun = true
	}
	b.WriteByte('\n')
}

// words are what a line is not broken in. A number stays with its percent sign.
func words(text string) []string {
	var list []string
	for word := range strings.FieldsSeq(text) {
		if strings.HasPrefix(word, "%") && len(list) > 0 {
			list[len(list)-1] += " " + word
			continue
		}
		list = append(list, word)
	}
	return list
}

func writeSettings(b *strings.Builder, k *KubeletReport) {
	if k == nil || !k.Complete {
		return
	}
	b.WriteString("\nWhat the kubelet is set to\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, s := range k.Settings {
		fmt.Fprintf(t, "%s%s\t%s\t%s\n", indent, s.Name, s.Value, s.From)
	}
	t.Flush()
}

// Verdict is the last line.
func (r *Report) Verdict() string {
	s := r.Summary
	counts := fmt.Sprintf("%s, %s, %s, %d ok", plural(s.Errors, "error"), plural(s.Warnings, "warning"), plural(s.Notes, "note"), s.OK)
	switch {
	case s.Errors > 0:
		return counts + ": mend the errors before ebb removes anything here."
	case s.Warnings > 0:
		return counts + ": it works, but not as it should."
	}
	return counts + ": all is well."
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
