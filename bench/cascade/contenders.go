package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/tools/peers"
)

func (b *bed) fast() contender.Contender {
	return contender.Peer(b.CP, "peer", contender.PeerArgs...)
}

// run has a contender run while something is done with it: once it collects.
func (b *bed) run(ctx context.Context, c contender.Contender, do func(pid int) error) (err error) {
	pid, stop, err := c.Start(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := b.probe(ctx); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return do(pid)
}

// probe returns once the contender has collected a dependent that was made after
// all that was made before.
func (b *bed) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("it does not collect"))
	defer cancel()
	f, err := b.makeFamily(ctx, 1)
	if err != nil {
		return err
	}
	if err := b.delete(ctx, f, "Background"); err != nil {
		return err
	}
	return b.watch.until(ctx, func(p progress) bool { return p.there == 0 })
}

// usage of a process, in MiB.
func memory(pid int) (rss, peak float64, err error) {
	u, err := peers.UsageOf(pid)
	const mib = 1 << 20
	return float64(u.RSSBytes) / mib, float64(u.PeakBytes) / mib, err
}
