package show

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docker/go-units"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// View describes the terminal, or the file, that output is written to.
type View struct {
	Width int  // columns of the terminal; 0: there is no limit
	Color bool // marks what needs attention
	Full  bool // shows all nodes in full, not only the first MostBlocks
}

// Node is what one node answered.
type Node[P any] struct {
	Name string
	Page P
	Err  error // why there is no page
}

// MostBlocks is how many nodes are shown in full where each takes many lines.
const MostBlocks = 5

// longestText bounds each text of an agent that is shown, in bytes. The longest texts are errors
// that list images.
const longestText = 4 << 10

// Clean makes text of a node or cluster safe for a terminal: one line of printable characters, cut
// after 4 KiB.
func Clean(s string) string { return fault.CleanUpTo(s, longestText) }

// text builds output for a person.
type text struct {
	View
	strings.Builder
}

// line writes a line, wrapped at the width of the view. The arguments must be clean.
func (t *text) line(format string, args ...any) { t.hang("", fmt.Sprintf(format, args...)) }

// hang writes head and words, wrapped at the width of the view. Further lines are indented to the
// end of head.
func (t *text) hang(head, words string) {
	indent := utf8.RuneCountInString(head)
	if indent > t.Width/2 { // too narrow for that
		indent = 2
	}
	line, at, begun := head, utf8.RuneCountInString(head), false
	for word := range strings.FieldsSeq(words) {
		n := utf8.RuneCountInString(word)
		switch {
		case begun && t.Width > 0 && at+1+n > t.Width:
			t.WriteString(strings.TrimRight(line, " ") + "\n")
			line, at = strings.Repeat(" ", indent), indent
		case begun:
			line, at = line+" ", at+1
		}
		line, at, begun = line+word, at+n, true
	}
	t.WriteString(strings.TrimRight(line, " ") + "\n")
}

// field writes a line that begins with the name of a field.
func (t *text) field(name, format string, args ...any) {
	t.hang(fmt.Sprintf("  %-10s ", name), fmt.Sprintf(format, args...))
}

func size(bytes uint64) string { return units.BytesSize(float64(bytes)) }

// takes formats a size with its inodes.
func takes(s page.Size) string {
	if s.Inodes == 0 {
		return size(s.Bytes)
	}
	return fmt.Sprintf("%s, %s", size(s.Bytes), plural(s.Inodes, "inode"))
}

func add(a, b page.Size) page.Size {
	return page.Size{Bytes: a.Bytes + b.Bytes, Inodes: a.Inodes + b.Inodes}
}

func plural[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// age formats how long ago then was, as kubectl does.
func age(now, then time.Time) string { return duration.HumanDuration(now.Sub(then)) }

func ageOf(now time.Time, then *time.Time) string {
	if then == nil {
		return ""
	}
	return age(now, *then)
}

// in formats how long it takes until then: "now" if then has passed.
func in(now, then time.Time) string {
	if !then.After(now) {
		return "now"
	}
	return "in " + duration.HumanDuration(then.Sub(now))
}

func seconds(s float64) string {
	const most = 10 * 365 * 24 * 3600
	return duration.HumanDuration(time.Duration(min(max(s, 0), most)) * time.Second)
}

// Paused describes a pause: until when, by whom and why.
func Paused(now time.Time, p page.Pause) string {
	s := "until further notice"
	if !p.Until.IsZero() {
		s = fmt.Sprintf("until %s (%s)", p.Until.UTC().Format(time.RFC3339), in(now, p.Until))
	}
	if p.By != "" {
		s += ", by " + Clean(p.By)
	}
	if p.Reason != "" {
		s += ": " + Clean(p.Reason)
	}
	return s
}

// asOf describes when the images of a page were listed, the agent's mode, and its pause if there is
// one.
func asOf(now, looked time.Time, mode string, p *page.Pause) string {
	s := fmt.Sprintf("listed %s ago, mode %s", age(now, looked), Clean(mode))
	if p != nil {
		s += ", paused " + Paused(now, *p)
	}
	return s
}

// imageName returns the reference by which a person knows an image: one with a tag if possible,
// else one with a digest, else the short ID.
func imageName(id string, references []string) string {
	for _, r := range references {
		if !strings.Contains(r, "@") {
			return r
		}
	}
	if len(references) > 0 {
		return references[0]
	}
	return shortID(id)
}

func shortID(id string) string {
	algorithm, digits, ok := strings.Cut(id, ":")
	if !ok || len(digits) <= 12 {
		return id
	}
	return algorithm + ":" + digits[:12]
}

// silent writes why nodes did not answer.
func silent[P any](t *text, nodes []Node[P]) {
	first := true
	for _, n := range nodes {
		if n.Err == nil {
			continue
		}
		if first {
			t.WriteString("\nNo answer:\n")
			first = false
		}
		t.hang("  "+Clean(n.Name)+"  ", Clean(n.Err.Error()))
	}
}

// Silent counts the nodes that did not answer.
func Silent[P any](nodes []Node[P]) (n int) {
	for _, node := range nodes {
		if node.Err != nil {
			n++
		}
	}
	return n
}

// answered returns the nodes that answered.
func answered[P any](nodes []Node[P]) (list []Node[P]) {
	for _, n := range nodes {
		if n.Err == nil {
			list = append(list, n)
		}
	}
	return list
}

// blocks shows the first MostBlocks nodes in full, each other node in one line. With View.Full it
// shows all in full.
func blocks[P any](t *text, nodes []Node[P], full, short func(Node[P])) {
	for i, n := range nodes {
		switch {
		case i < MostBlocks || t.Full:
			if i > 0 {
				t.WriteByte('\n')
			}
			full(n)
			continue
		case i == MostBlocks:
			t.WriteByte('\n')
			t.line("%d more, in short (--node NAME for one in full):", len(nodes)-MostBlocks)
		}
		short(n)
	}
}
