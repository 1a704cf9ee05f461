package main

import (
	"testing"

	"github.com/ebb-agent/ebb/bench/result"
)

func TestReport(t *testing.T) {
	if err := result.Check("../results", "size", figures.text); err != nil {
		t.Error(err)
	}
}
