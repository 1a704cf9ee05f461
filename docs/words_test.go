package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	sentenceMost = 30   // words
	pageMost     = 2500 // words, of a page that is read from its beginning
	readmeMost   = 150  // lines
)

// reference pages are looked things up in, or are made by a program.
var reference = map[string]bool{
	"chart.md": true, "config.md": true, "controller-config.md": true, "metrics.md": true,
	"controller-metrics.md": true, "install-transcript.md": true, "kernels.md": true,
}

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	comment   = regexp.MustCompile(`(?s)<!--.*?-->`)
	codeSpan  = regexp.MustCompile("`[^`]*`")
	item      = regexp.MustCompile(`^ *([-*]|[0-9]+\.) `)
	ends      = regexp.MustCompile(`[.!?]["')*]*(\s|$)`)
)

// prose yields the paragraphs and list items of a page: no code, tables or headings. A piece of code is one word.
func prose(page string) (paragraphs []string) {
	page = codeSpan.ReplaceAllString(comment.ReplaceAllString(codeBlock.ReplaceAllString(page, "\n"), "\n"), "code")
	var p []string
	flush := func() {
		if len(p) > 0 {
			paragraphs = append(paragraphs, strings.Join(p, " "))
		}
		p = nil
	}
	for line := range strings.Lines(page) {
		switch line = strings.TrimRight(line, "\n"); {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(strings.TrimSpace(line), "|"):
			flush()
		case item.MatchString(line):
			flush()
			p = append(p, item.ReplaceAllString(line, ""))
		default:
			p = append(p, strings.TrimSpace(line))
		}
	}
	flush()
	return paragraphs
}

// A sentence has at most thirty words, and a page is short enough to be read.
func TestPagesAreReadable(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, path := range append(pages, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CHANGELOG.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		words := 0
		for _, p := range prose(string(text)) {
			words += len(strings.Fields(p))
			for _, sentence := range ends.Split(p, -1) {
				if n := len(strings.Fields(sentence)); n > sentenceMost {
					t.Errorf("%s: a sentence of %d words, want at most %d: %.120s", path, n, sentenceMost, sentence)
				}
			}
		}
		if name := filepath.Base(path); name == path && !reference[name] && words > pageMost {
			t.Errorf("%s: %d words, want at most %d", path, words, pageMost)
		}
		if n := strings.Count(string(text), "\n"); path == "../README.md" && n > readmeMost {
			t.Errorf("%s: %d lines, want at most %d", path, n, readmeMost)
		}
	}
}

// The reader sees at once whether a page is for them.
func TestPagesSayWhomTheyAreFor(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// The first paragraph of install.md says that nothing is published yet.
		if begin := prose(string(text)); !slices.ContainsFunc(begin[:min(2, len(begin))], func(p string) bool { return strings.HasPrefix(p, "This page is for ") }) {
			t.Errorf("%s does not begin with \"This page is for …\"", path)
		}
	}
}
