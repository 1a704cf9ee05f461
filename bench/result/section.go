package result

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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
// results, beside which the report is. text makes the section of the figures.
func Render[F any](results, name string, text func(F) string) error {
	var f F
	if err := Read(results, name, &f); err != nil {
		return fmt.Errorf("render: %w", err)
	}
	return Section(filepath.Join(filepath.Dir(filepath.Clean(results)), "RESULTS.md"), name, text(f))
}
