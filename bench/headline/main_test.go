package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeQuotesTheLatestRuns: if it fails, go run ./bench/headline.
func TestReadmeQuotesTheLatestRuns(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := render("../results")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "<!-- begin measured -->\n\n"+strings.TrimSpace(want)+"\n") {
		t.Errorf("README.md does not quote the latest runs:\n%s", want)
	}
}

// TestFigureMissing: nothing is shown for a figure that a run did not write.
func TestFigureMissing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"node", "containers", "cascade", "collectors"} {
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(`{"images_needed":4}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := render(dir); err == nil || !strings.Contains(err.Error(), "ebb_reaction_s") {
		t.Errorf("render: %q, %v", text, err)
	}
}

func TestFormat(t *testing.T) {
	for want, got := range map[string]string{
		"1,658": format(0, 1658.136), "927": format(0, 927.285), "0.10": format(2, 0.1049), "1,234,567.9": format(1, 1234567.89), "12": format(0, 12),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
