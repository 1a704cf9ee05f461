// Package docs_test holds what people read against what is there: links lead
// somewhere, and named tests and make targets exist.
package docs_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = ".."

// pages are all Markdown files of the repository, by their path in it.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, root+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

var (
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	code    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.*?) *#*$`)
	anchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are what links within a page can lead to, by GitHub's rule: lower
// case, punctuation dropped, dashes for spaces, a number for those that repeat.
func anchors(page string) map[string]bool {
	page = fenced.ReplaceAllString(page, "")
	found := map[string]bool{}
	for _, m := range anchor.FindAllStringSubmatch(page, -1) {
		found[m[1]] = true
	}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		text := link.ReplaceAllString(m[1], "]")
		name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
		for n, first := 1, name; found[name]; n++ {
			name = fmt.Sprint(first, "-", n)
		}
		found[name] = true
	}
	return found
}

// TestLinks: what the pages refer to within the repository is there.
func TestLinks(t *testing.T) {
	all := pages(t)
	for path, text := range all {
		text = code.ReplaceAllString(fenced.ReplaceAllString(text, ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			target := path
			if to != "" {
				target = filepath.Join(filepath.Dir(path), to)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s leads nowhere", path, m[1])
			} else if page, is := all[target]; is && fragment != "" && !anchors(page)[fragment] {
				t.Errorf("%s: %s has no heading %q", path, target, fragment)
			}
		}
	}
}

var testLink = regexp.MustCompile("\\[`((?:Test|Fuzz)\\w+)(?:/[^`]*)?`\\]\\(([^)\\s]+)\\)")

// TestClaims: each row of the tables that compare ebb with others names a test, which
// exists.
func TestClaims(t *testing.T) {
	const path = "docs/compare.md"
	page := pages(t)[path]
	_, table, found := strings.Cut(page, "<!-- begin features -->")
	table, _, end := strings.Cut(table, "<!-- end features -->")
	if !found || !end {
		t.Fatalf("%s has no features between marks", path)
	}
	rows := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 || strings.TrimSpace(cells[1]) == "" || strings.HasPrefix(cells[1], "---") {
			continue // text, or the head of a table
		}
		rows++
		if !testLink.MatchString(cells[len(cells)-2]) {
			t.Errorf("no test stands behind %q", cells[1])
		}
	}
	if rows < 15 {
		t.Errorf("%d features", rows)
	}
	for _, m := range testLink.FindAllStringSubmatch(page, -1) {
		source, err := os.ReadFile(filepath.Join(root, filepath.Dir(path), m[2]))
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(source), "func "+m[1]+"(") {
			t.Errorf("%s has no %s", m[2], m[1])
		}
	}
}

var (
	target  = regexp.MustCompile(`(?m)^([a-z0-9-]+(?: [a-z0-9-]+)*):`)
	command = regexp.MustCompile("(?m)(?:`|^ *[#$] |^)make ([a-z0-9-]+)")
)

// TestTargets: each "make …" that a page tells people to type is in the Makefile.
func TestTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		for name := range strings.FieldsSeq(m[1]) {
			known[name] = true
		}
	}
	for path, text := range pages(t) {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				t.Errorf("%s: there is no make %s", path, m[1])
			}
		}
	}
}

// TestBuildElsewhere: ebb-agent and ebb-controller are for Linux; make build leaves them out on another
// system, and builds the command ebb.
func TestBuildElsewhere(t *testing.T) {
	for goos, want := range map[string]string{"linux": "./cmd/...", "darwin": "./cmd/ebb"} {
		cmd := exec.Command("make", "--dry-run", "-C", root, "build")
		cmd.Env = append(os.Environ(), "GOOS="+goos)
		out, err := cmd.CombinedOutput()
		if err != nil || !regexp.MustCompile(`go build .* `+regexp.QuoteMeta(want)+`\n`).Match(out) {
			t.Errorf("%s: %v, want %s:\n%s", goos, err, want, out)
		}
	}
}

// TestLicencesOfSources: each source of the kernel programs names both licences, and
// the text of each is there.
func TestLicencesOfSources(t *testing.T) {
	var sources []string
	for _, pattern := range []string{"bpf/*.c", "bpf/headers/*.h"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		sources = append(sources, found...)
	}
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */\n") {
			t.Errorf("%s does not name its licences", path)
		}
	}
	for name, begins := range map[string]string{"GPL-2.0-only": "GNU GENERAL PUBLIC LICENSE Version 2, June 1991", "Apache-2.0": "Apache License Version 2.0, January 2004"} {
		text, err := os.ReadFile(filepath.Join(root, "LICENSES", name+".txt"))
		if err != nil || !strings.HasPrefix(strings.Join(strings.Fields(string(text)), " "), begins) {
			t.Errorf("LICENSES/%s.txt is not that licence: %v", name, err)
		}
	}
}

// TestDemo: the summary that README shows is of the run in bench/results/demo.json.
func TestDemo(t *testing.T) {
	var run struct {
		FirstMs float64 `json:"crossing_to_first_removal_ms"`
		Percent float64 `json:"final_used_percent"`
		Removed int     `json:"images_removed"`
		Needed  int     `json:"images_needed"`
	}
	data, err := os.ReadFile("../bench/results/demo.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("Summary: %d of 10 images removed (%d were needed)", run.Removed, run.Needed),
		fmt.Sprintf("first one %.0f ms after the crossing, disk at %.1f %%", run.FirstMs, run.Percent),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("README.md does not have %q", want)
		}
	}
}
