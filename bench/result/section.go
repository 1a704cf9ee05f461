package result

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const reportHead = "# Results\n\nEach section is written by the benchmark that it names. [docs/benchmarks.md](../docs/benchmarks.md) says how the figures are taken.\n"

var sectionName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// Section puts text into the Markdown file at path, as the section of that name: in
// place of what a former run wrote there, else at the end. What stands between other
// sections' marks, or outside any, stays as it is, so that people may write between them.
func Section(path, name, text string) error {
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		old, err = []byte(reportHead), nil
	}
	if err != nil {
		return fmt.Errorf("section %s: %w", name, err)
	}
	whole, err := withSection(string(old), name, text)
	if err != nil {
		return fmt.Errorf("section %s of %s: %w", name, path, err)
	}
	// Written beside and renamed: an interrupted run must not cost the other sections.
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("section %s: %w", name, err)
	}
	if err := os.WriteFile(path+".tmp", []byte(whole), 0o644); err != nil {
		return fmt.Errorf("section %s: %w", name, err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("section %s: %w", name, errors.Join(err, os.Remove(path+".tmp")))
	}
	return nil
}

func withSection(whole, name, text string) (string, error) {
	if !sectionName.MatchString(name) {
		return "", fmt.Errorf("not a name for a section: %q", name)
	}
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->\n"
	// A text with marks in it would be cut in the wrong place by the next run.
	if strings.Contains(text, "<!--") {
		return "", errors.New("the text has a comment in it")
	}
	section := begin + "\n" + strings.TrimSpace(text) + "\n\n" + end
	first, last := strings.Index(whole, begin), strings.Index(whole, end)
	switch {
	case strings.Count(whole, begin) > 1 || strings.Count(whole, end) > 1:
		return "", errors.New("its marks are there more than once")
	case first < 0 && last < 0:
		return strings.TrimRight(whole, "\n") + "\n\n" + section, nil
	case first < 0 || last < first:
		return "", errors.New("one of its marks is missing, or they are the wrong way round")
	}
	return whole[:first] + section + whole[last+len(end):], nil
}

// Render writes a benchmark's section of the report from NAME.json in the directory of
// results, beside which the report is; nothing for "". text makes the section of the figures.
func Render[F any](results, name string, text func(F) string) error {
	if results == "" {
		return nil
	}
	var f F
	if err := Read(results, name, &f); err != nil {
		return fmt.Errorf("render: %w", err)
	}
	source, err := sourceOf(results, name)
	if err != nil {
		return fmt.Errorf("render: %w", err)
	}
	return Section(report(results), name, text(f)+source)
}

func report(results string) string {
	return filepath.Join(filepath.Dir(filepath.Clean(results)), "RESULTS.md")
}

// sourceOf is the line below a section that says where its figures are from.
func sourceOf(results, name string) (string, error) {
	o, err := OriginOf(results, name)
	if o == nil || err != nil {
		return "", err
	}
	machine := o.Machine
	if o.Emulated {
		machine += ", emulated: no time means anything"
	}
	return fmt.Sprintf("\n%s: commit %.12s, Linux %s, %s. All figures: [%[5]s.json](results/%[5]s.json).\n",
		o.Date.Format(time.DateOnly), o.Commit, o.Kernel, machine, name), nil
}

// Check says what is wrong if the report has another section than Render would write, or has
// one without figures. Sections of Older stay as they were written.
func Check[F any](results, name string, text func(F) string) error {
	if slices.Contains(Older, name) {
		return nil
	}
	had, err := os.ReadFile(report(results))
	if err != nil {
		return err
	}
	var f F
	err = Read(results, name, &f)
	if errors.Is(err, fs.ErrNotExist) && !strings.Contains(string(had), "<!-- begin "+name+" -->") {
		return nil
	}
	if err != nil {
		return err
	}
	source, err := sourceOf(results, name)
	if err != nil {
		return err
	}
	if whole, err := withSection(string(had), name, text(f)+source); err != nil || whole != string(had) {
		return errors.Join(fmt.Errorf("RESULTS.md does not have the section %s of %[1]s.json: make bench-publish", name), err)
	}
	return nil
}

// Table is rows as Markdown that can be read as it is: the first is the head, and all
// columns but the first are numbers. A row may end early.
func Table(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, r := range rows {
		r = append(slices.Clip(r), make([]string, len(widths)-len(r))...)
		fmt.Fprintf(&b, "| %-*s |", widths[0], r[0])
		for i, cell := range r[1:] {
			fmt.Fprintf(&b, " %*s |", widths[i+1], cell)
		}
		b.WriteString("\n")
		if n == 0 {
			b.WriteString("|" + strings.Repeat("-", widths[0]+2) + "|")
			for _, w := range widths[1:] {
				b.WriteString(strings.Repeat("-", w+1) + ":|")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
