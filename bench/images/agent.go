package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

// lines are what the agent says of a run.
type lines struct {
	first, ended chan agentrun.Line
}

func (l lines) line(line agentrun.Line) {
	switch line.Message {
	case "first removal done":
		l.first <- line
	case "reclaim run ended":
		l.ended <- line
	}
}

func (s size) watchAgent(ctx context.Context, o options, n *node.Node, f figures) (err error) {
	c := agentrun.ConfigFor(n)
	c.Images.MinimumAge = 0
	c.Images.MaxRemovalsPerHour = s.images
	c.Images.HighThresholdPercent, c.Images.LowThresholdPercent = 80, 79
	said := lines{first: make(chan agentrun.Line, 64), ended: make(chan agentrun.Line, 64)}
	opts := agentrun.Options{Binary: o.agent, Dir: n.Dir(), Config: c, OnLine: said.line}
	began := time.Now()
	p, err := agentrun.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop(), agentrun.Unload(c)) }()
	s.set(f, "first_ready_s", time.Since(began).Seconds())
	if err := s.awaitKnown(ctx, p); err != nil {
		return err
	}
	s.set(f, "known_s", time.Since(began).Seconds())
	if err := p.Stop(); err != nil {
		return err
	}
	began = time.Now()
	if p, err = agentrun.Start(ctx, opts); err != nil {
		return err
	}
	s.set(f, "ready_s", time.Since(began).Seconds())
	if err := s.awaitKnown(ctx, p); err != nil {
		return err
	}
	if err := s.watchIdle(ctx, o, p, f); err != nil {
		return err
	}
	if err := s.reclaim(ctx, n, p, said, f); err != nil {
		return err
	}
	u, err := p.Usage()
	if err == nil {
		s.set(f, "peak_rss_mib", u.PeakRSSMiB)
	}
	return err
}

// awaitKnown waits until the kernel tells every image's layers apart, and what the
// start has set off is over.
func (s size) awaitKnown(ctx context.Context, p *agentrun.Process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Minute, errors.New("the layers do not become known"))
	defer cancel()
	for {
		tracked, err := p.Metric(ctx, "ebb_node_layers_tracked")
		if err != nil {
			return err
		}
		if int(tracked) >= s.images {
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (s size) watchIdle(ctx context.Context, o options, p *agentrun.Process, f figures) error {
	if err := pause(ctx, 20*time.Second); err != nil {
		return err
	}
	before, err := p.Usage()
	if err != nil {
		return err
	}
	if err := pause(ctx, o.idle); err != nil {
		return err
	}
	after, err := p.Usage()
	if err != nil {
		return err
	}
	s.set(f, "idle_cpu_percent", after.CPUPercent(before))
	s.set(f, "rss_mib", after.RSSMiB)
	return nil
}

// reclaim fills the disk across the line, so that a hundredth of it has to come free.
func (s size) reclaim(ctx context.Context, n *node.Node, p *agentrun.Process, said lines, f figures) error {
	u, err := n.Usage()
	if err != nil {
		return err
	}
	if err := reserve(filepath.Join(n.Mount(), "reserved"), u.CapacityBytes/1000*799-(u.CapacityBytes-u.AvailableBytes)); err != nil {
		return err
	}
	if err := n.Fill("fill", int64(u.CapacityBytes/500)); err != nil { // to 80.1 percent in one go
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Minute, errors.New("the disk does not get low"))
	defer cancel()
	first, err := next(ctx, p, said.first)
	if err != nil {
		return err
	}
	s.set(f, "first_ms", first.Number("since_crossing_ms"))
	ended, err := next(ctx, p, said.ended)
	if err != nil {
		return err
	}
	s.set(f, "removed", ended.Number("images_removed"))
	s.set(f, "removed_per_s", ended.Number("images_removed")/(ended.Number("took_ms")/1e3))
	return nil
}

// reserve takes space and writes nothing: a disk that has gigabytes to write holds up each of
// containerd's commits, and has none where containerd is measured alone.
func reserve(path string, bytes uint64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, int64(bytes)), f.Close())
}

// next is the next line of a kind.
func next(ctx context.Context, p *agentrun.Process, lines <-chan agentrun.Line) (agentrun.Line, error) {
	select {
	case l := <-lines:
		return l, nil
	case <-p.Ended():
		return agentrun.Line{}, errors.New("the agent ended")
	case <-ctx.Done():
		return agentrun.Line{}, context.Cause(ctx)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
