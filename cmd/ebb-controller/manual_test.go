package main

import (
	"io"
	"testing"

	"github.com/ebb-agent/ebb/tools/manual/manualtest"
)

// TestGeneratedManual: pages and completions in the repository are this command's.
func TestGeneratedManual(t *testing.T) {
	manualtest.Check(t, "../..", command(io.Discard, io.Discard), 8)
}
