package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/policy/gc"
)

// Names of the contenders in the figures.
const (
	ebbShipped  = "ebb_shipped"
	peerShipped = "peer_shipped"
	ebbBest     = "ebb"
	peerFast    = "peer"         // without client limits
	peerBest    = "peer_workers" // and with more workers
	client      = "client"       // no collector: only the requests
)

func (b *fixture) contender(name string) contender.Contender {
	switch name {
	case ebbShipped:
		return b.Ebb.Shipped(nil)
	case peerShipped:
		return contender.PeerShipped(b.CP)
	case ebbBest:
		return b.Ebb.Contender()
	case peerBest:
		return contender.Peer(b.CP, "peer, 100 workers", append([]string{contender.MoreWorkers}, contender.PeerArgs...)...)
	}
	return contender.Peer(b.CP, "peer, no limits", contender.PeerArgs...)
}

// run starts a contender, calls do with its process ID once it collects, and stops it.
func (b *fixture) run(ctx context.Context, c contender.Contender, do func(pid int) error) error {
	return c.Run(ctx, func(pid int) error {
		if err := b.probe(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		return do(pid)
	})
}

// probe creates an owner with a dependent, deletes the owner, and returns once the contender has
// collected the dependent. By then it has seen everything that was created before.
func (b *fixture) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("it does not collect"))
	defer cancel()
	f, err := b.makeFamily(ctx, b.one(1))
	if err != nil {
		return err
	}
	if err := b.delete(ctx, f, gc.Background); err != nil {
		return err
	}
	return b.watch.until(ctx, func(p progress) bool { return p.there == 0 })
}
