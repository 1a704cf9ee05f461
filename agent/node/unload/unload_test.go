package unload

import (
	"os"
	"path/filepath"
	"testing"
)

// TestKubeletDirectory: only an empty directory is taken away, and nothing has to be there.
func TestKubeletDirectory(t *testing.T) {
	for name, test := range map[string]struct {
		make func(own string) error
		left bool
	}{
		"none":    {func(string) error { return nil }, false},
		"empty":   {func(own string) error { return os.Mkdir(own, 0o755) }, false},
		"another": {func(own string) error { return os.MkdirAll(filepath.Join(own, "data"), 0o755) }, true},
		"a file":  {func(own string) error { return os.WriteFile(own, nil, 0o600) }, true},
		"a link":  {func(own string) error { return os.Symlink("/", own) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			kubelet := t.TempDir()
			own := filepath.Join(kubelet, KubeletDirectory)
			if err := test.make(own); err != nil {
				t.Fatal(err)
			}
			if err := removeKubeletDirectory(kubelet); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(own); (err == nil) != test.left {
				t.Errorf("%v", err)
			}
		})
	}
	if err := removeKubeletDirectory(""); err != nil {
		t.Error(err)
	}
}
