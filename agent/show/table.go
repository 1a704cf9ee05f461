package show

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// column is one column of a table.
type column struct {
	name  string
	spare int  // 0: always shown; others are left out if empty or, the highest first, for lack of room
	empty bool // left out if it has no values, although spare is 0
	tail  bool // cut at the beginning, not at the end
	right bool // right-aligned, for numbers
	wrap  bool // wrapped instead of cut; only for the last column
}

const (
	gap       = 2
	narrow    = 12 // columns are cut to this before any is left out
	narrowest = 4  // columns are cut to this when none can be left out
)

// table is a list of rows with the same columns.
type table struct {
	columns []column
	rows    [][]string
	bad     map[int]bool // rows that need attention
}

func newTable(columns ...column) *table { return &table{columns: columns, bad: make(map[int]bool)} }

// add adds a row, and cleans its cells.
func (t *table) add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Clean(c)
	}
	t.rows = append(t.rows, row)
}

// alarm is add for a row that needs attention.
func (t *table) alarm(cells ...string) {
	t.bad[len(t.rows)] = true
	t.add(cells...)
}

// write writes the table, each line after an indent.
func (t *table) write(to *text, indent string) {
	shown, widths := t.fit(to.Width-len(indent), to.Width > 0)
	row := func(cells func(i int) string, bad bool) {
		var b strings.Builder
		for n, i := range shown {
			c, s := t.columns[i], cells(i)
			if c.wrap && utf8.RuneCountInString(s) > widths[i] {
				below := text{View: View{Width: widths[i]}}
				below.hang("", chop(s, widths[i]))
				under := "\n" + strings.Repeat(" ", utf8.RuneCountInString(b.String()))
				b.WriteString(strings.ReplaceAll(strings.TrimSuffix(below.String(), "\n"), "\n", under))
				continue
			}
			b.WriteString(pad(s, widths[i], n == len(shown)-1, c))
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			line = strings.TrimRight(line, " ")
			if bad && to.Color {
				line = "\x1b[31m" + line + "\x1b[0m"
			}
			to.WriteString(indent + line + "\n")
		}
	}
	row(func(i int) string { return t.columns[i].name }, false)
	for n, cells := range t.rows {
		row(func(i int) string {
			if cells[i] == "" && t.columns[i].name != "" {
				return "-"
			}
			return cells[i]
		}, t.bad[n])
	}
}

// chop breaks words that are longer than a column.
func chop(s string, width int) string {
	var b strings.Builder
	at := 0
	for _, r := range s {
		switch {
		case r == ' ':
			at = -1
		case at == width:
			b.WriteByte(' ')
			at = 0
		}
		b.WriteRune(r)
		at++
	}
	return b.String()
}

func pad(s string, width int, last bool, c column) string {
	s = cut(s, width, c.tail)
	blank := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	switch {
	case c.right && last:
		return blank + s
	case c.right:
		return blank + s + strings.Repeat(" ", gap)
	case last:
		return s
	}
	return s + blank + strings.Repeat(" ", gap)
}

// cut shortens a text to width characters. An ellipsis replaces its beginning if tail is set, else
// its end.
func cut(s string, width int, tail bool) string {
	n := utf8.RuneCountInString(s)
	if n <= width {
		return s
	}
	runes := []rune(s)
	if tail {
		return "…" + string(runes[n-width+1:])
	}
	return string(runes[:width-1]) + "…"
}

// fit returns the indexes of the columns to show, and the widths of all columns. If limited, it
// makes them fit width as far as it can.
func (t *table) fit(width int, limited bool) (shown []int, widths []int) {
	widths = make([]int, len(t.columns))
	for i, c := range t.columns {
		empty := true
		widths[i] = utf8.RuneCountInString(c.name)
		for _, row := range t.rows {
			widths[i], empty = max(widths[i], utf8.RuneCountInString(row[i])), empty && row[i] == ""
		}
		if !empty || c.spare == 0 && !c.empty {
			shown = append(shown, i)
		}
	}
	if !limited {
		return shown, widths
	}
	natural := slices.Clone(widths)
	for !shrink(shown, widths, width, narrow) {
		sparest := slices.MaxFunc(shown, func(a, b int) int { return t.columns[a].spare - t.columns[b].spare })
		if t.columns[sparest].spare == 0 {
			shrink(shown, widths, width, narrowest)
			break
		}
		shown = slices.DeleteFunc(shown, func(i int) bool { return i == sparest })
		copy(widths, natural)
	}
	return shown, widths
}

// shrink narrows the widest columns, but none below least. It reports whether all columns fit then.
func shrink(shown, widths []int, width, least int) bool {
	for {
		total := gap * (len(shown) - 1)
		widest := shown[0]
		for _, i := range shown {
			total += widths[i]
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		switch {
		case total <= width:
			return true
		case widths[widest] <= least:
			return false
		}
		widths[widest]--
	}
}
