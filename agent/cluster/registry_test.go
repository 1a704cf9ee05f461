package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFilesOfACollector: beside its own package, what is generated, tests, benchmarks, pages and the values of a
// machine for trying ebb, a collector is in the four files that docs/adding-a-collector.md names.
func TestFilesOfACollector(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs/adding-a-collector.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Everything else: four files\n")
	table, _, _ = strings.Cut(table, "\n\n`TestFiles")
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\| \[[^\]]*\]\(\.\./([^)]*)\)`).FindAllStringSubmatch(table, -1) {
		want = append(want, m[1])
	}
	slices.Sort(want)
	if len(want) != 4 {
		t.Fatalf("the page names %v", want)
	}
	others := []string{"deploy/chart/values.schema.json", "deploy/chart/files/rights.yaml", "deploy/vagrant/values.yaml"}
	named := regexp.MustCompile(`(?i)\bcsrs\b`)
	var got []string
	for _, dir := range []string{"agent", "cmd", "deploy", "policy", "runtime"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			name, _ := filepath.Rel(root, path)
			if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/e2e/") || strings.HasPrefix(name, "policy/csrs/") || slices.Contains(others, name) {
				return err
			}
			text, err := os.ReadFile(path)
			if named.Match(text) {
				got = append(got, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files that name csrs (-page +tree):\n%s", diff)
	}
}
