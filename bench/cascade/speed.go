package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/peers"
)

// wave is how one family went.
type wave struct {
	perSecond float64
	first     float64 // ms until the first dependent was seen to go
	behind    float64 // s from the last dependent to the owner's end
	requests  float64 // for each dependent
}

func (b *bed) delete(ctx context.Context, f family, policy gc.Policy) error {
	url := b.CP.URL() + "/api/v1/namespaces/default/configmaps/" + f.owner.Name
	return peers.Request(ctx, b.Admin, http.MethodDelete, url, map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy,
	}, nil)
}

// wave deletes an owner and waits for what a contender makes of it.
func (b *bed) wave(ctx context.Context, c contender.Contender, policy gc.Policy, dependents int) (v wave, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, fmt.Errorf("%s did not end a %s deletion", c.Name, policy))
	defer cancel()
	f, err := b.makeFamily(ctx, dependents)
	if err != nil {
		return v, err
	}
	// Then it has seen all of these.
	if err := b.probe(ctx); err != nil {
		return v, err
	}
	b.watch.look(f)
	audit, err := b.CP.ReadAudit(b.audited, func(peers.AuditEvent) {})
	if err != nil {
		return v, err
	}
	b.watch.restart()
	began := time.Now()
	if err := b.delete(ctx, f, policy); err != nil {
		return v, err
	}
	left := func(p progress) int {
		if policy == gc.Orphan {
			return p.referring
		}
		return p.there
	}
	if err := b.watch.until(ctx, func(p progress) bool { return left(p) == 0 }); err != nil {
		return v, err
	}
	p := b.watch.progress()
	v.perSecond = float64(dependents) / p.last.Sub(began).Seconds()
	v.first = float64(p.first.Sub(began).Microseconds()) / 1e3
	if err := b.watch.until(ctx, func(p progress) bool { return !p.owner }); err != nil {
		return v, err
	}
	v.behind = time.Since(p.last).Seconds()
	requests := 0
	b.audited, err = b.CP.ReadAudit(audit, func(e peers.AuditEvent) {
		if e.User.Username == c.User && e.Verb != "watch" && e.Verb != "list" {
			requests++
		}
	})
	v.requests = float64(requests) / float64(dependents)
	contender.Say("%-12s %-10s %8.0f a second; first after %5.0f ms, owner %5.2f s behind the last; %.2f requests each",
		c.Name, policy, v.perSecond, v.first, v.behind, v.requests)
	return v, err
}

// limit is what a client reaches that sends what the collector sends, with no
// collector beside it.
func (b *bed) limit(ctx context.Context, verb gc.Verb) (float64, error) {
	f, err := b.makeFamily(ctx, b.dependents)
	if err != nil {
		return 0, err
	}
	owner := gc.Reference{APIVersion: "v1", Kind: "ConfigMap", Name: f.owner.Name, UID: f.owner.UID}
	b.watch.restart()
	began := time.Now()
	if err := inParallel(len(f.dependents), func(i int) error {
		a := gc.Action{Verb: verb, Object: f.dependents[i].Coordinates, ResourceVersion: f.dependents[i].version, Policy: gc.Background, Refs: []gc.Position{{Reference: owner}}}
		out := b.client.Do(ctx, a, true)
		if out.Result != gc.Done {
			return fmt.Errorf("%s: %s: %w", verb, out.Result, out.Err)
		}
		return nil
	}); err != nil {
		return 0, err
	}
	if err := b.watch.until(ctx, func(p progress) bool { return p.referring == 0 }); err != nil {
		return 0, err
	}
	perSecond := float64(len(f.dependents)) / b.watch.progress().last.Sub(began).Seconds()
	contender.Say("%-12s %-10s %8.0f a second", "no collector", verb, perSecond)
	return perSecond, nil
}

var policies = []gc.Policy{gc.Background, gc.Foreground, gc.Orphan}

// measureSpeed has each contender delete families, in turn.
func measureSpeed(ctx context.Context, b *bed, f *figures) error {
	waves := map[string]map[gc.Policy][]wave{"ebb": {}, "peer": {}}
	var deletes, patches []float64
	for range b.rounds {
		for verb, list := range map[gc.Verb]*[]float64{gc.Delete: &deletes, gc.RemoveReferences: &patches} {
			v, err := b.limit(ctx, verb)
			if err != nil {
				return err
			}
			*list = append(*list, v)
		}
		for _, c := range []contender.Contender{b.Ebb.Contender(), b.fast()} {
			if err := b.run(ctx, c, func(int) error {
				for _, policy := range policies {
					v, err := b.wave(ctx, c, policy, b.dependents)
					if err != nil {
						return err
					}
					waves[c.Name][policy] = append(waves[c.Name][policy], v)
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	f.LimitDelete, f.LimitPatch = median(deletes), median(patches)
	f.fill(waves)
	slow := contender.Peer(b.CP, "peer default", contender.OnlyCollector)
	return b.run(ctx, slow, func(int) error {
		v, err := b.wave(ctx, slow, gc.Background, b.slow)
		f.PeerDefault = result.Round(v.perSecond)
		return err
	})
}

// fill takes the medians.
func (f *figures) fill(waves map[string]map[gc.Policy][]wave) {
	of := func(name string, policy gc.Policy, field func(wave) float64) float64 {
		var values []float64
		for _, w := range waves[name][policy] {
			values = append(values, field(w))
		}
		return median(values)
	}
	speed := func(w wave) float64 { return w.perSecond }
	first := func(w wave) float64 { return w.first }
	behind := func(w wave) float64 { return w.behind }
	f.Background, f.PeerBackground = of("ebb", gc.Background, speed), of("peer", gc.Background, speed)
	f.Foreground, f.PeerForeground = of("ebb", gc.Foreground, speed), of("peer", gc.Foreground, speed)
	f.Orphan, f.PeerOrphan = of("ebb", gc.Orphan, speed), of("peer", gc.Orphan, speed)
	f.First, f.PeerFirst = of("ebb", gc.Background, first), of("peer", gc.Background, first)
	f.Barrier, f.PeerBarrier = of("ebb", gc.Orphan, behind), of("peer", gc.Orphan, behind)
	for _, policy := range policies {
		requests := func(w wave) float64 { return w.requests }
		f.Requests = max(f.Requests, of("ebb", policy, requests))
		f.PeerRequests = max(f.PeerRequests, of("peer", policy, requests))
	}
}
