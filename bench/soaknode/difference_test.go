package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/node/config"
)

func TestDifference(t *testing.T) {
	shipped := config.Default()
	used := shipped
	used.Images.HighThresholdPercent = 81
	used.ReconcileInterval = config.Duration(30 * time.Second)
	got, err := difference(shipped, used)
	want := map[string]any{"images.imageGCHighThresholdPercent": 81., "reconcileInterval": "30s"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
