// Package golden compares generated text with files of the repository. With -update the test writes
// the files instead.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files that tests compare with")

// Update reports whether -update is set.
func Update() bool { return *update }

// Check compares a file with the text that it should have.
func Check(t testing.TB, file, want string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(text), want); diff != "" {
		t.Errorf("%s is out of date (- as it is, + as it should be; go test -update writes it):\n%s", file, diff)
	}
}

// Scenarios compares each testdata/*.txt with the text that render makes of it. It fails if there are
// fewer than least files.
func Scenarios(t *testing.T, least int, render func(t *testing.T, text string) string) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < least {
		t.Fatalf("found %d scenarios: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			Check(t, file, render(t, string(text)))
		})
	}
}
