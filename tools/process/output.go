package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Output runs a command and returns its stdout. An error includes the command and its
// stderr, which is also written to cmd.Stderr, if that is set.
func Output(cmd *exec.Cmd) (string, error) {
	var out, complaint strings.Builder
	cmd.Stdout = &out
	if cmd.Stderr == nil {
		cmd.Stderr = io.Discard
	}
	cmd.Stderr = io.MultiWriter(cmd.Stderr, &complaint)
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%.300s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// Build runs one of this repository's scripts that build programs and print the directory
// of the result. log receives the script's stderr.
func Build(ctx context.Context, log io.Writer, script string, args ...string) (dir string, err error) {
	path, err := Find(script)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = log
	dir, err = Output(cmd)
	return strings.TrimSpace(dir), err
}

// Find returns the path of a file of this repository, given relative to the repository's
// top. It searches upwards from the working directory: tests run in their package's
// directory, commands mostly at the top.
func Find(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for from := dir; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if dir == "/" {
			return "", fmt.Errorf("no %s in or above %s", name, from)
		}
	}
}
