// Command headline writes the tables of measured figures in README, docs/benchmarks.md and
// docs/why.md from the latest runs in bench/results. Run it at the top of the repository:
// go run ./bench/headline. It refuses runs of other sources and runs of different machines. A test
// keeps the tables equal to the runs.
package main

import (
	"bytes"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/ebb-agent/ebb/bench/result"
)

//go:embed *.md.tmpl
var templates embed.FS

// tables lists the generated sections. section.md.tmpl is the template of each.
var tables = []struct{ page, section string }{
	{"README.md", "short"},
	{"docs/benchmarks.md", "all"},
	{"docs/why.md", "reach"},
	{"docs/why.md", "agent-costs"},
	{"docs/why.md", "controller-costs"},
}

// quoted lists the results that the tables quote, and that must be of the present sources. others
// may be of earlier ones: the tables name their commit.
var (
	quoted = []string{"cascade", "collectors", "containers", "idle", "node", "probes", "reaction"}
	others = []string{"images", "pods", "size"}
)

func main() {
	results := flag.String("results", result.Dir, "directory of the figures")
	show := flag.Bool("show", false, "show the tables instead of writing them, whatever the runs are of")
	text := flag.Bool("text", false, "write the pages again after a change of their text, whatever the runs are of")
	flag.Parse()
	if err := run(*results, *show, *text); err != nil {
		fmt.Fprintln(os.Stderr, "headline:", err)
		os.Exit(1)
	}
}

func run(results string, show, text bool) error {
	if show { // show no figure as "to be measured"
		result.Older = nil
	} else if !text {
		if err := fresh(results); err != nil {
			return fmt.Errorf("nothing is written: %w", err)
		}
	}
	for _, t := range tables {
		table, err := render(results, templateOf(t.section))
		if err != nil {
			return err
		}
		if show {
			fmt.Println(table)
		} else if err := result.Section(t.page, t.section, table); err != nil {
			return err
		}
	}
	return nil
}

// fresh returns an error for each result that is not of the present sources, or not of the first
// result's machine.
func fresh(results string) error {
	var errs []error
	var first *result.Origin
	for _, name := range quoted {
		o, err := result.OriginOf(results, name)
		if err != nil || o == nil {
			errs = append(errs, errors.Join(fmt.Errorf("%s: nothing says what it is of", name), err))
			continue
		}
		if first == nil {
			first = o
		}
		sources, _, err := result.SourcesOf(o.Made.Packages)
		if err != nil {
			return err
		}
		errs = append(errs, wrong(name, o, first, sources))
	}
	return errors.Join(errs...)
}

// wrong returns the reason why a result must not be published beside another, or nil.
func wrong(name string, o, other *result.Origin, sources string) error {
	switch {
	case o.Emulated:
		return fmt.Errorf("%s: its machine was emulated", name)
	case o.Made.Sources == "":
		return fmt.Errorf("%s: it ran where there was no checkout, so nothing says what its sources are", name)
	case o.Dirty:
		return fmt.Errorf("%s: its sources were not committed", name)
	case o.Made.Sources != sources:
		return fmt.Errorf("%s: its sources have changed since commit %.12s", name, o.Commit)
	case len(o.Configuration) > 0:
		return fmt.Errorf("%s: not as the benchmark is by default: %v", name, o.Configuration)
	case o.Kernel != other.Kernel || o.Machine != other.Machine || !maps.Equal(o.Versions, other.Versions):
		return fmt.Errorf("%s: of another machine: Linux %s, %s, %v; not Linux %s, %s, %v",
			name, o.Kernel, o.Machine, o.Versions, other.Kernel, other.Machine, other.Versions)
	}
	return nil
}

// templateOf returns the template of a section.
func templateOf(section string) string {
	text, err := templates.ReadFile(section + ".md.tmpl")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// render renders a table with the figures in a directory. A missing figure is an error, unless its
// benchmark is in [result.Older].
func render(results, table string) (string, error) {
	runs, commits := map[string]any{}, map[string]string{}
	for _, name := range slices.Concat(quoted, others) {
		var run map[string]any
		if err := result.Read(results, name, &run); err != nil && !(errors.Is(err, fs.ErrNotExist) && slices.Contains(result.Older, name)) {
			return "", fmt.Errorf("render: %w", err)
		}
		runs[name] = run
		o, err := result.OriginOf(results, name)
		switch {
		case o != nil:
			commits[name] = o.Commit
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("render: %w", err)
		}
	}
	t, err := template.New("table").Funcs(template.FuncMap{
		"f":    func(digits int, path string) (string, error) { return figure(runs, digits, path, 1) },
		"mib":  func(digits int, path string) (string, error) { return figure(runs, digits, path, 1<<20) },
		"file": func(name string) string { return file(commits, name) },
	}).Parse(table)
	if err != nil {
		return "", fmt.Errorf("render: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, nil); err != nil {
		return "", fmt.Errorf("render: %w", err)
	}
	return out.String(), nil
}

// figure formats the figure at a path such as "idle.ebb.rss_mib", in units of that many.
func figure(runs map[string]any, digits int, path string, unit float64) (string, error) {
	name, _, _ := strings.Cut(path, ".")
	var at any = runs
	for key := range strings.SplitSeq(path, ".") {
		within, _ := at.(map[string]any)
		at = within[key]
	}
	v, ok := at.(float64)
	switch {
	case ok:
		return format(digits, v/unit), nil
	case slices.Contains(result.Older, name):
		return "to be measured", nil
	}
	return "", fmt.Errorf("no figure %s", path)
}

// file names the file of a result, with its commit if that is not the one of idle.json.
func file(commits map[string]string, name string) string {
	switch commit := commits[name]; commit {
	case "":
		return name + ".json (older)"
	case commits["idle"]:
		return name + ".json"
	default:
		return fmt.Sprintf("%s.json (commit %.12s)", name, commit)
	}
}

// format formats a figure with that many digits after the point, and with commas between thousands.
func format(digits int, v float64) string {
	s := fmt.Sprintf("%.*f", digits, v)
	whole := len(s)
	if digits > 0 {
		whole -= digits + 1
	}
	for i := whole - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
