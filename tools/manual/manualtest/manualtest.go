// Package manualtest compares the repository's manual pages and completions with the
// commands that they are generated from.
package manualtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ebb-agent/ebb/tools/golden"
	"github.com/ebb-agent/ebb/tools/manual"
)

// Check compares the generated files of a program, or rewrites them with -update. top
// is the path of the top of the repository. It also checks that --help explains every
// command and flag.
func Check(t *testing.T, top string, root *cobra.Command, section int) {
	t.Helper()
	teaches(t, root)
	files, err := manual.Files(root, section)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		golden.Check(t, filepath.Join(top, name), string(files[name]))
	}
	stale(t, top, root.Name(), section, files)
}

// stale reports pages of removed commands, or deletes them with -update.
func stale(t *testing.T, top, name string, section int, files map[string][]byte) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(top, manual.PageDir, fmt.Sprintf("%s*.%d", name, section)))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range pages {
		path, err := filepath.Rel(top, file)
		if err != nil {
			t.Fatal(err)
		}
		if files[filepath.ToSlash(path)] != nil {
			continue
		}
		if golden.Update() {
			err = os.Remove(file)
		}
		if !golden.Update() || err != nil {
			t.Errorf("%s is of no command (%v): make docs", path, err)
		}
	}
}

// teaches checks that each command has a short and a long text and an example, and that
// each flag has a description.
func teaches(t *testing.T, cmd *cobra.Command) {
	t.Helper()
	if cmd.Short == "" || cmd.Long == "" {
		t.Errorf("%s --help lacks a short text, or a long one", cmd.CommandPath())
	}
	if cmd.Runnable() && !strings.Contains(cmd.Example, cmd.CommandPath()) {
		t.Errorf("no example of %s runs it", cmd.CommandPath())
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
			t.Errorf("%s --%s: %q is not a phrase about it", cmd.CommandPath(), f.Name, f.Usage)
		}
	})
	for _, child := range cmd.Commands() {
		teaches(t, child)
	}
}
