package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
)

// stage measures the contenders with this many objects. It leaves out the peer if the machine has
// not enough memory, going by what the peer took with fewer objects (before).
func (b *fixture) stage(ctx context.Context, objects int, before *measured) (s stage, err error) {
	s.Objects, s.Dependents = objects, dependents(objects)
	ebb, peer := b.Ebb.Contender(), contender.Peer(b.CP, "peer", contender.PeerArgs...)
	contenders := []contender.Contender{ebb}
	if objects <= b.peer {
		contenders = append(contenders, peer)
	}
	if err := b.grow(ctx, objects, contenders); err != nil {
		return s, err
	}
	if s.Ebb, err = b.measure(ctx, ebb, objects); err != nil || objects > b.peer {
		return s, err
	}
	if before != nil {
		want := max(before.Start, before.Cascade) * float64(objects) / float64(b.few) * 1.2
		free, err := available()
		if err != nil {
			return s, err
		}
		if free < want+spare {
			benchmark.Say("the peer may take %.0f MiB with %d objects, and the machine has %.0f: left out", want, objects, free)
			return s, nil
		}
	}
	m, err := b.measure(ctx, peer, objects)
	if errors.Is(err, errMemory) {
		benchmark.Say("the peer was ended: %v", err)
		return s, nil
	}
	s.Peer = &m
	return s, err
}

// measure starts a contender, lets it come to rest, and has it collect a tree.
func (b *fixture) measure(ctx context.Context, c contender.Contender, objects int) (m measured, err error) {
	if err := b.leaveBehind(ctx); err != nil {
		return m, err
	}
	began := time.Now()
	err = c.Run(ctx, func(pid int) error { return b.measureRunning(ctx, c, pid, began, objects, &m) })
	return m, err
}

func (b *fixture) measureRunning(ctx context.Context, c contender.Contender, pid int, began time.Time, objects int, m *measured) error {
	if err := benchmark.Until(ctx, 50*time.Millisecond, longest, c.Name+" deleted nothing", func(ctx context.Context) (bool, error) {
		return b.empty(ctx, abandoned)
	}); err != nil {
		return err
	}
	if c.Name == "ebb" { // the peer deletes nothing before it has listed everything
		if err := benchmark.Until(ctx, 50*time.Millisecond, longest, "ebb has not listed everything", b.Ebb.Ready); err != nil {
			return err
		}
	}
	m.Ready = result.Round(time.Since(began).Seconds())
	u, err := process.UsageOf(pid)
	if err != nil {
		return err
	}
	m.ReadyCPU, m.ReadyRead = result.Round(u.CPU.Seconds()), result.Round(float64(u.ReadBytes)/process.MiB)
	if err := benchmark.Pause(ctx, b.rest); err != nil {
		return err
	}
	if u, err = process.UsageOf(pid); err != nil {
		return err
	}
	m.Start, m.Rest = result.Round(u.PeakMiB()), result.Round(u.RSSMiB())
	if c.Name == "ebb" {
		live, err := b.Ebb.Heap(ctx)
		if err != nil {
			return err
		}
		m.Heap = result.Round(live / float64(objects))
	}
	benchmark.Say("%-5s ready with %d objects after %.1f s, %.1f s of CPU, %.0f MiB read; %.0f MiB at most, %.0f at rest",
		c.Name, objects, m.Ready, m.ReadyCPU, m.ReadyRead, m.Start, m.Rest)
	return b.cascade(ctx, c, pid, objects, m)
}

// cascade deletes the root of a contender's tree and measures how the contender collects the tree.
func (b *fixture) cascade(ctx context.Context, c contender.Contender, pid int, objects int, m *measured) error {
	before, err := process.UsageOf(pid)
	if err == nil {
		err = process.ResetPeak(pid)
	}
	if err != nil {
		return err
	}
	began, tree := time.Now(), treeOf(objects, c)
	url := b.CP.URL() + "/api/v1/namespaces/" + tree + "/configmaps/root"
	if err := peers.Request(ctx, b.Admin, http.MethodDelete, url, map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
	}, nil); err != nil {
		return err
	}
	if err := benchmark.Until(ctx, 200*time.Millisecond, longest, c.Name+" did not end a cascade", func(ctx context.Context) (bool, error) {
		return b.empty(ctx, tree)
	}); err != nil {
		return err
	}
	m.PerSecond = result.Round(float64(dependents(objects)) / time.Since(began).Seconds())
	u, err := process.UsageOf(pid)
	m.Cascade, m.Read = result.Round(u.PeakMiB()), result.Round(float64(u.ReadBytes-before.ReadBytes)/process.MiB)
	benchmark.Say("%-5s %d dependents, %.0f a second, %.0f MiB at most, %.0f MiB read", c.Name, dependents(objects), m.PerSecond, m.Cascade, m.Read)
	return err
}
