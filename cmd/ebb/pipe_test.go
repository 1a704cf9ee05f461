package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/ebb-agent/ebb/agent/show/showtest"
	"github.com/ebb-agent/ebb/tools/buildtest"
)

// TestClosedPipe: "ebb images | head" ends as other programs do, without a word.
func TestClosedPipe(t *testing.T) {
	near, far, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	near.Close()
	defer far.Close()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), buildtest.Program(t, "cmd/ebb"), "images", "--socket", showtest.NewAgent().Serve(t))
	cmd.Stdout, cmd.Stderr = far, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE || errs.Len() > 0 {
		t.Errorf("%v: %s", err, &errs)
	}
}
