package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/peers"
)

// restTime is what a process is given to come to rest before its memory counts.
const restTime = 10 * time.Second

// stage measures the contenders with so many objects. The peer is left out if, going by
// what it took with fewer, the machine has not the memory.
func (b *bed) stage(ctx context.Context, objects int, before *measured) (s stage, err error) {
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
			contender.Say("the peer may take %.0f MiB with %d objects, and the machine has %.0f: left out", want, objects, free)
			return s, nil
		}
	}
	m, err := b.measure(ctx, peer, objects)
	if errors.Is(err, errMemory) {
		contender.Say("the peer was ended: %v", err)
		return s, nil
	}
	s.Peer = &m
	return s, err
}

// measure has a contender start, come to rest, and collect a tree.
func (b *bed) measure(ctx context.Context, c contender.Contender, objects int) (m measured, err error) {
	if err := b.leaveBehind(ctx); err != nil {
		return m, err
	}
	began := time.Now()
	pid, stop, err := c.Start(ctx)
	if err != nil {
		return m, fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	p := contender.Process(pid)
	if err := contender.Until(ctx, 50*time.Millisecond, longest, c.Name+" deleted nothing", func(ctx context.Context) (bool, error) {
		return b.empty(ctx, abandoned)
	}); err != nil {
		return m, err
	}
	if c.Name == "ebb" { // the peer deletes nothing before it has listed everything
		if err := contender.Until(ctx, 50*time.Millisecond, longest, "ebb has not listed everything", b.Ebb.Ready); err != nil {
			return m, err
		}
	}
	m.Ready = result.Round(time.Since(began).Seconds())
	u, err := p.Usage()
	if err != nil {
		return m, err
	}
	m.ReadyCPU, m.ReadyRead = result.Round(u.CPU), result.Round(u.Read)
	if err := contender.Pause(ctx, restTime); err != nil {
		return m, err
	}
	if u, err = p.Usage(); err != nil {
		return m, err
	}
	m.Start, m.Rest = result.Round(u.Peak), result.Round(u.RSS)
	if c.Name == "ebb" {
		live, err := b.Ebb.Metric(ctx, "go_gc_heap_live_bytes")
		if err != nil {
			return m, err
		}
		m.Heap = result.Round(live / float64(objects))
	}
	contender.Say("%-5s ready with %d objects after %.1f s, %.1f s of CPU, %.0f MiB read; %.0f MiB at most, %.0f at rest",
		c.Name, objects, m.Ready, m.ReadyCPU, m.ReadyRead, m.Start, m.Rest)
	err = b.cascade(ctx, c, p, objects, &m)
	return m, err
}

// cascade deletes a contender's tree.
func (b *bed) cascade(ctx context.Context, c contender.Contender, p contender.Process, objects int, m *measured) error {
	before, err := p.Usage()
	if err == nil {
		err = p.ResetPeak()
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
	if err := contender.Until(ctx, 200*time.Millisecond, longest, c.Name+" did not end a cascade", func(ctx context.Context) (bool, error) {
		return b.empty(ctx, tree)
	}); err != nil {
		return err
	}
	m.PerSecond = result.Round(float64(dependents(objects)) / time.Since(began).Seconds())
	u, err := p.Usage()
	m.Cascade, m.Read = result.Round(u.Peak), result.Round(u.Read-before.Read)
	contender.Say("%-5s %d dependents, %.0f a second, %.0f MiB at most, %.0f MiB read", c.Name, dependents(objects), m.PerSecond, m.Cascade, m.Read)
	return err
}
