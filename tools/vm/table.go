package vm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/tools/vm/report"
)

// Column is one kernel of the table of results.
type Column struct {
	Name    string // of the kernel
	Package string
	Report  report.Report
}

// Table returns a table of results by kernel: first the programs, then the suites.
// Notes give the reasons for every program or test that did not run.
func Table(at time.Time, columns []Column) string {
	t := &table{columns: columns}
	fmt.Fprintf(&t.text, "Made on %s by `make test-vm`.\n\n", at.UTC().Format(time.DateOnly))
	t.row("", func(c Column) string { return "`" + c.Name + "`" })
	t.row("---", func(Column) string { return "---" })
	t.row("package", func(c Column) string { return cmp.Or(c.Package, "not to be had") })
	t.row("modules of filesystems", func(c Column) string { return filesystems(c.Report.Kernel.Modules) })
	for _, p := range t.programs() {
		t.row(fmt.Sprintf("program `%s` (%s)", p.Name, p.AttachPoint), func(c Column) string { return t.program(c, p) })
	}
	for _, s := range suites {
		if !t.ran(s.pkg) {
			continue // not selected
		}
		t.row("tests `"+s.pkg+"`", func(c Column) string { return t.suite(c, s.pkg) })
	}
	if len(t.notes) > 0 {
		t.text.WriteByte('\n')
	}
	for i, note := range t.notes {
		fmt.Fprintf(&t.text, "%d. %s\n", i+1, note)
	}
	return t.text.String()
}

type table struct {
	columns []Column
	text    strings.Builder
	notes   []string
}

func (t *table) row(head string, cell func(Column) string) {
	fmt.Fprintf(&t.text, "| %s |", head)
	for _, c := range t.columns {
		fmt.Fprintf(&t.text, " %s |", cell(c))
	}
	t.text.WriteByte('\n')
}

// note returns the mark of a note. Equal notes share a number.
func (t *table) note(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	i := slices.Index(t.notes, text)
	if i < 0 {
		i = len(t.notes)
		t.notes = append(t.notes, text)
	}
	return fmt.Sprintf("(%d)", i+1)
}

// programs returns the programs of all kernels, in the order of their first appearance.
func (t *table) programs() []report.Program {
	var all []report.Program
	for _, c := range t.columns {
		for _, p := range c.Report.Programs {
			if !slices.ContainsFunc(all, func(q report.Program) bool { return q.Name == p.Name }) {
				all = append(all, p)
			}
		}
	}
	return all
}

// ran reports whether any kernel has a verdict on a suite.
func (t *table) ran(name string) bool {
	return slices.ContainsFunc(t.columns, func(c Column) bool {
		return slices.ContainsFunc(c.Report.Suites, func(r report.Result) bool { return r.Name == name })
	})
}

func (t *table) program(c Column, p report.Program) string {
	i := slices.IndexFunc(c.Report.Programs, func(q report.Program) bool { return q.Name == p.Name })
	if i < 0 {
		return "not tried"
	}
	word, reason := "no", c.Report.Programs[i].Reason
	if c.Report.Programs[i].Attached {
		word = "yes"
	}
	if reason != "" {
		word += " " + t.note(reason)
	}
	return word
}

func (t *table) suite(c Column, name string) string {
	i := slices.IndexFunc(c.Report.Suites, func(r report.Result) bool { return r.Name == name })
	if i < 0 {
		return "no verdict"
	}
	r := c.Report.Suites[i]
	word := fmt.Sprintf("%d passed", r.Passed)
	if r.Exit != 0 {
		word = "**failed** " + t.note(strings.Join(append([]string{"failed:", r.Reason}, r.FailedTests...), " "))
	}
	if len(r.Skipped) > 0 {
		word += fmt.Sprintf(", %d skipped %s", len(r.Skipped), t.note("skipped: "+strings.Join(r.Skipped, ", ")))
	}
	return word
}

// filesystems returns the filesystems that kernel programs read and that this kernel
// has as modules, with types of their own.
func filesystems(loaded []string) string {
	var have []string
	for _, name := range []string{"overlay", "ext4", "xfs", "btrfs", "erofs"} {
		if slices.Contains(loaded, name) {
			have = append(have, name)
		}
	}
	return cmp.Or(strings.Join(have, ", "), "none")
}

// The marks around the table of one architecture in a page.
func tableBegin(kind string) string { return "<!-- table of " + kind + ": begin -->" }
func tableEnd(kind string) string   { return "<!-- table of " + kind + ": end -->" }

// ErrNoTable is the error for a page without the marks of the table.
var ErrNoTable = errors.New("no place for a table")

// WriteTable replaces the table of one architecture in a page.
func WriteTable(page, kind, table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	begin, end := tableBegin(kind), tableEnd(kind)
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("write table: %w: %s lacks %q and %q", ErrNoTable, page, begin, end)
	}
	text = []byte(before + begin + "\n" + table + end + after)
	if err := os.WriteFile(page, text, 0o644); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
