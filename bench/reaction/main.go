// Command reaction measures the time from the write that crosses the high threshold to the first
// removal done, over many crossings. It uses a throwaway node with the real agent, containerd and
// kernel. The crossing is stamped in the kernel, by the allocation that reached the threshold. The
// removal is done when the runtime has returned from it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

const mib = 1 << 20

func main() {
	agent := flag.String("agent", "bin/ebb-agent", "the ebb-agent binary to measure")
	runs := flag.Int("runs", 120, "how many crossings")
	results := flag.String("results", result.Dir, "where reaction.json goes")
	flag.Parse()
	benchmark.Main("bench-reaction", func(ctx context.Context) error { return run(ctx, *agent, *results, *runs) })
}

type figures struct {
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	Max        float64 `json:"max_ms"`
	Runs       int     `json:"runs"`
	Containerd string  `json:"containerd"`
}

func run(ctx context.Context, binary, results string, runs int) (err error) {
	n, err := node.Start(ctx, node.Config{Name: "reaction", FS: "ext4", SizeBytes: 768 * mib, Containerd: node.V2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	i, err := agentrun.Install(ctx, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	reactions := make(chan float64, 1)
	ended := make(chan struct{}, 1)
	c := i.Config
	c.Images.MinimumAge, c.Images.MaxRemovalsPerHour = 0, "100000"
	c.Images.LowThresholdPercent = 79
	p, err := agentrun.Start(ctx, agentrun.Options{Binary: binary, Dir: n.Dir(), Config: c, OnLine: func(l agentrun.Line) {
		switch l.Message {
		case "first removal done":
			reactions <- l.Number("since_crossing_ms")
		case "reclaim run ended":
			ended <- struct{}{}
		}
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()

	var took []float64
	for len(took) < runs {
		ms, err := crossOnce(ctx, n, p, len(took), reactions, ended)
		if err != nil {
			return fmt.Errorf("crossing %d: %w", len(took)+1, err)
		}
		took = append(took, ms)
		if len(took)%20 == 0 {
			fmt.Fprintf(os.Stderr, "%d of %d crossings\n", len(took), runs)
		}
	}
	version, err := n.Client().Version(ctx)
	if err != nil {
		return err
	}
	return result.Write(results, "reaction", figures{
		P50: result.Round(result.Percentile(took, 50)), P99: result.Round(result.Percentile(took, 99)),
		Max: result.Round(result.Percentile(took, 100)), Runs: len(took), Containerd: version.Version,
	})
}

// crossOnce imports an image that may be removed, fills the disk to just below the threshold,
// crosses it, and waits for the run to end. It returns the time from the crossing to the first
// removal, in ms.
func crossOnce(ctx context.Context, n *node.Node, p *agentrun.Process, i int, reactions <-chan float64, ended <-chan struct{}) (float64, error) {
	image := node.Image{
		Name:   fmt.Sprintf("reaction.test/image:%d", i),
		Layers: []node.Layer{{Seed: fmt.Sprintf("layer-%d", i), Bytes: 12 * mib, Files: 8}},
	}
	if _, err := n.Import(ctx, node.CRINamespace, image); err != nil {
		return 0, err
	}
	if err := n.FillTo("fill", 78.5); err != nil {
		return 0, err
	}
	if err := n.Fill("fill", 8*mib); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the agent did nothing for a minute"))
	defer cancel()
	ms, err := agentrun.Next(ctx, p, reactions)
	if err != nil {
		return 0, err
	}
	if _, err := agentrun.Next(ctx, p, ended); err != nil {
		return 0, err
	}
	return ms, n.Unfill("fill")
}
