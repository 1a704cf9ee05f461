package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

// lines receives the lines that the agent logs about a run.
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
	installed, err := agentrun.Install(ctx, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, installed.Close()) }()
	c := installed.Config
	c.Images.MinimumAge = 0
	c.Images.MaxRemovalsPerHour = config.Cap(strconv.Itoa(s.Images))
	c.Images.HighThresholdPercent, c.Images.LowThresholdPercent = 80, 79
	log := lines{first: make(chan agentrun.Line, 64), ended: make(chan agentrun.Line, 64)}
	opts := agentrun.Options{Binary: o.agent, Dir: n.Dir(), Config: c, OnLine: log.line}
	began := time.Now()
	p, err := agentrun.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
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
	if err := s.reclaim(ctx, o, n, p, log, f); err != nil {
		return err
	}
	u, err := p.Usage()
	if err == nil {
		s.set(f, "peak_rss_mib", u.PeakMiB())
	}
	return err
}

// awaitKnown waits until the kernel distinguishes every image's layers: then the start is complete.
func (s size) awaitKnown(ctx context.Context, p *agentrun.Process) error {
	return benchmark.Until(ctx, time.Second, 30*time.Minute, "the layers do not become known", func(ctx context.Context) (bool, error) {
		tracked, err := p.Metric(ctx, "ebb_node_layers_tracked")
		return int(tracked) >= s.Images, err
	})
}

func (s size) watchIdle(ctx context.Context, o options, p *agentrun.Process, f figures) error {
	if err := benchmark.Pause(ctx, o.rest); err != nil {
		return err
	}
	before, err := p.Usage()
	if err != nil {
		return err
	}
	if err := benchmark.Pause(ctx, o.idle); err != nil {
		return err
	}
	after, err := p.Usage()
	if err != nil {
		return err
	}
	s.set(f, "idle_cpu_percent", after.Since(before).CPUPercent)
	s.set(f, "rss_mib", after.RSSMiB())
	return nil
}

// reclaim fills the disk to just below the high threshold, and then across it: five times until the
// first removal is done, and at last until a hundredth of the disk is free again.
func (s size) reclaim(ctx context.Context, o options, n *node.Node, p *agentrun.Process, log lines, f figures) error {
	u, err := n.Usage()
	if err != nil {
		return err
	}
	if err := reserve(filepath.Join(n.Mount(), "reserved"), u.CapacityBytes/1000*799-(u.CapacityBytes-u.AvailableBytes)); err != nil {
		return err
	}
	cross := func() error { return n.Fill("fill", int64(u.CapacityBytes/500)) } // to 80.1 percent in one go
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Minute, errors.New("the disk does not get low"))
	defer cancel()
	var first, alone []float64
	for i := range 5 {
		took, err := s.removeWhileStopped(ctx, n, p, i)
		if err != nil {
			return err
		}
		alone = append(alone, took)
		if err := benchmark.Pause(ctx, o.rest/2); err != nil { // the agent receives the event
			return err
		}
		if err := cross(); err != nil {
			return err
		}
		line, err := agentrun.Next(ctx, p, log.first)
		if err != nil {
			return err
		}
		first = append(first, line.Number("since_crossing_ms"))
		if err := n.Unfill("fill"); err != nil { // nothing more needs to be removed
			return err
		}
		if _, err := agentrun.Next(ctx, p, log.ended); err != nil {
			return err
		}
	}
	s.set(f, "runtime_alone_ms", result.Percentile(alone, 50))
	s.set(f, "first_ms", result.Percentile(first, 50))
	benchmark.Say("first removals took %.0f ms, containerd's own %.0f ms", first, alone)
	if err := cross(); err != nil {
		return err
	}
	ended, err := agentrun.Next(ctx, p, log.ended)
	if err != nil {
		return err
	}
	s.set(f, "removed", ended.Number("images_removed"))
	s.set(f, "removed_per_s", ended.Number("images_removed")/(ended.Number("took_ms")/1e3))
	return nil
}

func (s size) removeWhileStopped(ctx context.Context, n *node.Node, p *agentrun.Process, serial int) (took float64, err error) {
	if err := unix.Kill(p.PID(), unix.SIGSTOP); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, unix.Kill(p.PID(), unix.SIGCONT)) }()
	return s.removeAlone(ctx, n, serial)
}

// reserve takes space and writes nothing. A disk with gigabytes to write delays each of
// containerd's commits, and there would be no such delay where containerd is measured alone.
func reserve(path string, bytes uint64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, int64(bytes)), f.Close())
}
