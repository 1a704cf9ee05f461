package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/bench/result"
)

const results = "../results"

// TestPagesQuoteTheLatestRuns: if it fails, make bench-publish.
func TestPagesQuoteTheLatestRuns(t *testing.T) {
	for _, table := range tables {
		text, err := os.ReadFile(filepath.Join("../..", table.page))
		if err != nil {
			t.Fatal(err)
		}
		want, err := render(results, templateOf(table.section))
		if err != nil {
			t.Fatal(err)
		}
		mark := func(what string) string { return "<!-- " + what + " " + table.section + " -->" }
		if !strings.Contains(string(text), mark("begin")+"\n\n"+strings.TrimSpace(want)+"\n\n"+mark("end")) {
			t.Errorf("%s does not quote the latest runs:\n%s", table.page, want)
		}
	}
}

// quotes are the figures that the comments of the chart's values quote.
const quotes = `{{f 0 "idle.ebb.rss_mib"}} MiB and {{f 3 "idle.ebb.cpu_percent"}} % of a core with {{f 0 "idle.images"}} images (bench/results/idle.json)
5,000 images it is {{f 0 "images.rss_mib"}} MiB, with 10,000 it is {{f 0 "images.rss_mib_10k"}} MiB, and {{f 0 "images.peak_rss_mib_10k"}} MiB for a moment
{{f 0 "cascade.memory.ebb_shipped.rss_mib"}} MiB with 100,000 objects, and {{f 0 "cascade.memory.ebb_shipped.peak_rss_mib"}} MiB while
{{f 0 "size.many.ebb.rss_mib"}} MiB with a million objects, and {{f 0 "size.many.ebb.cascade_peak_rss_mib"}} MiB while {{f 0 "size.many.cascade_dependents"}} of them`

// TestChartQuotesResults: if it fails, change the comments in values.yaml, then make generate.
func TestChartQuotesResults(t *testing.T) {
	older := result.Older
	t.Cleanup(func() { result.Older = older })
	result.Older = nil
	text, err := os.ReadFile("../../deploy/chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := render(results, quotes)
	if err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n  # ", " ")), " ")
	for line := range strings.SplitSeq(want, "\n") {
		if !strings.Contains(flat, line) {
			t.Errorf("values.yaml does not have: %s", line)
		}
	}
}

// TestOrigins: each result names its commit, but for those that predate this; and those are
// on the list no longer than until they are measured anew.
func TestOrigins(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(results, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		o, err := result.OriginOf(results, name)
		if err != nil {
			t.Fatal(err)
		}
		if older := slices.Contains(result.Older, name); older != (o == nil) {
			t.Errorf("%s has an origin: %v; it is on the list of older results: %v", name, o != nil, older)
		}
	}
}

// TestFigureMissing: nothing is shown for a figure that a run did not write.
func TestFigureMissing(t *testing.T) {
	older := result.Older
	t.Cleanup(func() { result.Older = older })
	dir := t.TempDir()
	for _, name := range slices.Concat(quoted, others) {
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(`{"a":{"b":4}}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const table = `{{f 0 "idle.a.b"}} {{f 0 "idle.a.c"}}`
	result.Older = nil
	if text, err := render(dir, table); err == nil || !strings.Contains(err.Error(), "no figure idle.a.c") {
		t.Errorf("%q, %v", text, err)
	}
	result.Older = []string{"idle"}
	if text, err := render(dir, table); err != nil || text != "4 to be measured" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestFile: a page names the commit of a figure, where that is not the one of the others.
func TestFile(t *testing.T) {
	commits := map[string]string{"idle": "1234567890abcd", "node": "1234567890abcd", "size": "abcdef1234567890"}
	for name, want := range map[string]string{
		"node": "node.json", "size": "size.json (commit abcdef123456)", "pods": "pods.json (older)",
	} {
		if got := file(commits, name); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestWrong: only runs of committed sources that are still those, as the benchmark is by
// default, and of one machine.
func TestWrong(t *testing.T) {
	good := result.Origin{Kernel: "6.1", Machine: "m", Versions: map[string]string{"go": "1"}, Made: result.Made{Sources: "s"}}
	if err := wrong("x", &good, &good, "s"); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*result.Origin){
		"emulated":        func(o *result.Origin) { o.Emulated = true },
		"no checkout":     func(o *result.Origin) { o.Made.Sources = "" },
		"not committed":   func(o *result.Origin) { o.Dirty = true },
		"have changed":    func(o *result.Origin) { o.Made.Sources = "t" },
		"by default":      func(o *result.Origin) { o.Configuration = map[string]string{"images": "1"} },
		"Linux 6.2":       func(o *result.Origin) { o.Kernel = "6.2" },
		"another machine": func(o *result.Origin) { o.Versions = nil },
	} {
		o := good
		change(&o)
		if err := wrong("x", &o, &good, "s"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for want, got := range map[string]string{
		"1,658": format(0, 1658.136), "927": format(0, 927.285), "0.10": format(2, 0.1049), "1,234,567.9": format(1, 1234567.89), "12": format(0, 12),
		"-5.7": format(1, -5.707), "-123": format(0, -123), "-1,234": format(0, -1234),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
