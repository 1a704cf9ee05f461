package removal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Only a file that does not exist is no pause. Its text is bounded, and on one line.
func TestPauseFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pause")
	for _, none := range []PauseFile{"", PauseFile(file), PauseFile(filepath.Join(dir, "no", "such", "directory"))} {
		if p := none.Read(); p != nil {
			t.Errorf("%q: %+v", none, p)
		}
	}
	for text, want := range map[string]string{"": "", " a look\n\tfirst\n": "a look first", strings.Repeat("x", 300): strings.Repeat("x", 256), "a\xffb": "ab"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p := PauseFile(file).Read(); p == nil || p.Reason != want || p.By != "the file "+file || !p.Until.IsZero() {
			t.Errorf("%q: %+v", text, p)
		}
	}
	if p := PauseFile(dir).Read(); p == nil || !strings.Contains(p.Reason, "cannot be read") {
		t.Errorf("a directory: %+v", p)
	}
}
