package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
)

// commandRuns is the least number of runs of a command.
const commandRuns = 9

// measureCommand runs ebb several times, each time as a new process, and returns how many seconds
// each run took until all its output was read. complete checks that output.
func measureCommand(ctx context.Context, o options, complete func(show.Document) error, args ...string) (took []float64, err error) {
	for range max(o.runs, commandRuns) {
		if err := benchmark.Pause(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(ctx, o.ebb, args...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		began := time.Now()
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("ebb %s: %w: %s", args[0], err, errs.Bytes())
		}
		took = append(took, time.Since(began).Seconds())
		var d show.Document
		if err := json.Unmarshal(out.Bytes(), &d); err != nil {
			return nil, fmt.Errorf("ebb %s: %w", args[0], err)
		}
		if err := complete(d); err != nil {
			return nil, fmt.Errorf("ebb %s: %w", args[0], err)
		}
	}
	return took, nil
}

// measureImagesCommand measures "ebb images" on the admin socket of an agent.
func measureImagesCommand(ctx context.Context, o options, socket string, f figures) error {
	complete := func(d show.Document) error {
		if len(d.Nodes) != 1 {
			return fmt.Errorf("%d nodes", len(d.Nodes))
		}
		if images, _ := d.Nodes[0]["images"].([]any); len(images) < o.images { // the runtime has some of its own
			return fmt.Errorf("%d of %d images", len(images), o.images)
		}
		return nil
	}
	took, err := measureCommand(ctx, o, complete, "images", "-o", "json", "--socket", socket)
	if err != nil {
		return err
	}
	f.set("images_command_ms", result.Median(took)*1e3)
	f.set("images_command_max_ms", slices.Max(took)*1e3)
	return nil
}
