// Package buildtest builds ebb's own programs for tests that run them.
package buildtest

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ebb-agent/ebb/"

// Programs builds commands, such as "cmd/ebb-agent", as "make build" does: static, without the
// race detector, and with its build cache. The test's end deletes their directory.
func Programs(t testing.TB, packages ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	args := []string{"build", "-trimpath", "-o", dir + "/"}
	for _, p := range packages {
		args = append(args, module+p)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %v: %v\n%s", packages, err, out)
	}
	return dir
}

// Program builds one command and returns the path of its executable.
func Program(t testing.TB, pkg string) string {
	t.Helper()
	return filepath.Join(Programs(t, pkg), path.Base(pkg))
}

// Run runs a program to its end, and returns its output and its exit code.
func Run(t testing.TB, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Examples returns the arguments of the examples that the help of a command prints. A pipe, and what follows
// it, is left out.
func Examples(t testing.TB, program string, command ...string) (lines [][]string) {
	t.Helper()
	help, _, _ := Run(t, exec.CommandContext(t.Context(), program, append(slices.Clone(command), "--help")...))
	_, help, _ = strings.Cut(help, "\nExamples:\n")
	help, _, _ = strings.Cut(help, "\n\nFlags:\n")
	for line := range strings.Lines(help) {
		line, _, _ = strings.Cut(line, " | ")
		if args := strings.Fields(line); strings.HasPrefix(line, "  ") && len(args) > len(command) && args[0] == path.Base(program) && slices.Equal(args[1:len(command)+1], command) {
			lines = append(lines, args[1:])
		}
	}
	if len(lines) == 0 {
		t.Fatalf("%s %q: no examples in\n%s", program, command, help)
	}
	return lines
}
