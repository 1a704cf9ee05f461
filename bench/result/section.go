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

// Section writes text into the Markdown file at path as the section of that name. It replaces the
// section that a former run wrote, or appends a new one. Everything outside that section's marks
// stays as it is, so that people may write between sections.
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
	// Write a temporary file and rename it: an interrupted run must not lose the other sections.
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
	// The next run would cut a text that contains marks in the wrong place.
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

// Render writes a benchmark's section of the report from NAME.json in the directory of results. The
// report is RESULTS.md beside that directory. text renders the figures. Render does nothing if
// results is "".
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

// sourceOf returns the line below a section that describes the origin of its figures, or "" if they
// have no origin.
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

// Check returns an error if the report's section differs from what Render would write, or has no
// figures. It skips the sections of [Older], which stay as they were written.
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

// Table formats rows as a Markdown table that is also readable as plain text. The first row is the
// head, and all columns but the first are numbers. A row may be shorter than the head.
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
