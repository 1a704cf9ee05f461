package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/bench/result"
)

// The report is made from what a run has saved, as often as asked, and leaves the other
// sections alone.
func TestRender(t *testing.T) {
	low := 0.3
	f := figures{EbbRuns: 7, EbbReaction: 0.028, EbbReactionMax: 0.03, EbbLow: &low, EbbRemoved: 4, Needed: 4, KubeletRuns: 1, KubeletReaction: 300.005, High: 80, Low: 60, Filled: 87}
	f.Usage.Ebb = []point{{0, 87}, {28, 79}, {300, 55}, {1300, 55}}
	f.Usage.Kubelet = []point{{0, 87}, {300005, 31}, {303000, 31}}
	dir := filepath.Join(t.TempDir(), "results")
	write := func(f figures) {
		t.Helper()
		text, err := json.Marshal(f)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err != nil || os.WriteFile(filepath.Join(dir, "node.json"), text, 0o600) != nil {
			t.Fatal("node.json cannot be written", err)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write(f)
	if err := render(dir); err != nil {
		t.Fatal(err)
	}
	report, picture := read("../RESULTS.md"), read("node.svg")
	unpadded := regexp.MustCompile(` {2,}`).ReplaceAllString(report, " ")
	for _, want := range []string{
		"| seconds until there is room, at worst | 0.03 | 300 | |", "| seconds until that | 0.3 | not reached | |",
		"](results/node.svg)",
	} {
		if !strings.Contains(unpadded, want) {
			t.Errorf("no %q in:\n%s", want, report)
		}
	}
	for want, count := range map[string]int{">ebb<": 1, ">room after 28 ms<": 1, ">4 images removed, 4 needed<": 1, "eviction manager<": 0} {
		if got := strings.Count(picture, want); got != count {
			t.Errorf("%q is there %d times, want %d", want, got, count)
		}
	}
	if err := render(dir); err != nil || read("../RESULTS.md") != report || read("node.svg") != picture {
		t.Fatalf("the second time differs: %v", err)
	}
	write(figures{})
	if err := render(dir); err == nil || read("../RESULTS.md") != report || read("node.svg") != picture {
		t.Fatalf("figures without usage were taken: %v", err)
	}
}

func TestReport(t *testing.T) {
	if err := result.Check("../results", "node", figures.report); err != nil {
		t.Error(err)
	}
}
