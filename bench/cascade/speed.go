package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/peers"
)

// wave is the result of deleting one family.
type wave struct {
	perSecond float64
	first     float64   // ms until the first dependent changed
	behind    float64   // s from the last dependent to the owner's end
	requests  float64   // for each dependent
	others    []float64 // ms that the neighbour waited for each answer
}

func (b *fixture) delete(ctx context.Context, f family, policy gc.Policy) error {
	return inParallel(len(f.owners), func(i int) error {
		return peers.Request(ctx, b.Admin, http.MethodDelete, b.url(contender.ConfigMaps)+"/"+f.owners[i].Name, map[string]any{
			"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy,
		}, nil)
	})
}

// wave creates a family, deletes its owners, and measures how the contender treats the dependents.
func (b *fixture) wave(ctx context.Context, c contender.Contender, policy gc.Policy, s shape) (v wave, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, fmt.Errorf("%s did not end a %s deletion", c.Name, policy))
	defer cancel()
	f, err := b.makeFamily(ctx, s)
	if err != nil {
		return v, err
	}
	// After the probe, the contender has seen the whole family.
	if err := b.probe(ctx); err != nil {
		return v, err
	}
	b.watch.look(f)
	before, err := b.requests(ctx)
	if err != nil {
		return v, err
	}
	b.watch.restart()
	began := time.Now()
	v.others, err = b.besides(ctx, func() error {
		if err := b.delete(ctx, f, policy); err != nil {
			return err
		}
		return b.watch.until(ctx, func(p progress) bool {
			if policy == gc.Orphan {
				return p.referring == 0
			}
			return p.there == 0
		})
	})
	if err != nil {
		return v, err
	}
	p := b.watch.progress()
	v.perSecond = float64(s.dependents()) / p.last.Sub(began).Seconds()
	v.first = float64(p.first.Sub(began).Microseconds()) / 1e3
	if err := b.watch.until(ctx, func(p progress) bool { return p.owners == 0 }); err != nil {
		return v, err
	}
	v.behind = time.Since(p.last).Seconds()
	after, err := b.requests(ctx)
	v.requests = (after - before - float64(s.owners)) / float64(s.dependents())
	benchmark.Say("%-18s %-10s %8.0f a second; first after %5.0f ms, owner %5.2f s behind the last; %.2f requests each; others waited %.1f ms at the 99th percentile",
		c.Name, policy, v.perSecond, v.first, v.behind, v.requests, result.Percentile(v.others, 99))
	return v, err
}

var requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} (\S+)$`)

// requests returns how many requests about ConfigMaps and objects of the followed type the API
// server has answered, without lists, watches and creations. The API server counts requests anyway,
// whereas an audit log would cost it time for each.
func (b *fixture) requests(ctx context.Context) (n float64, err error) {
	var text string
	if err := peers.Request(ctx, b.Admin, http.MethodGet, b.CP.URL()+"/metrics", nil, &text); err != nil {
		return 0, err
	}
	wanted := regexp.MustCompile(`resource="(` + b.followed.Resource + `|` + contender.ConfigMaps.Resource + `)".*verb="(GET|DELETE|PATCH|PUT|APPLY)"`)
	for _, series := range requestTotal.FindAllStringSubmatch(text, -1) {
		if wanted.MatchString(series[1]) {
			v, err := strconv.ParseFloat(series[2], 64)
			if err != nil {
				return 0, err
			}
			n += v
		}
	}
	return n, nil
}

// limit measures a client that sends the same requests as a collector, with no collector beside it.
func (b *fixture) limit(ctx context.Context, verb gc.Verb, dependents int) (v wave, err error) {
	f, err := b.makeFamily(ctx, b.one(dependents))
	if err != nil {
		return v, err
	}
	owner := gc.Reference{APIVersion: "v1", Kind: "ConfigMap", Name: f.owners[0].Name, UID: f.owners[0].UID}
	b.watch.restart()
	began := time.Now()
	v.others, err = b.besides(ctx, func() error {
		return inParallel(len(f.dependents), func(i int) error {
			a := gc.Action{Verb: verb, Object: f.dependents[i].Coordinates, ResourceVersion: f.dependents[i].version, Policy: gc.Background, Refs: []gc.Position{{Reference: owner}}}
			out := b.client.Do(ctx, a, true)
			if out.Result != gc.Done {
				return fmt.Errorf("%s: %s: %w", verb, out.Result, out.Err)
			}
			return nil
		})
	})
	if err != nil {
		return v, err
	}
	if err := b.watch.until(ctx, func(p progress) bool { return p.referring == 0 }); err != nil {
		return v, err
	}
	v.perSecond, v.requests = float64(len(f.dependents))/b.watch.progress().last.Sub(began).Seconds(), 1
	benchmark.Say("%-18s %-10s %8.0f a second", "no collector", verb, v.perSecond)
	return v, nil
}

// waves has the waves by policy and contender.
type waves map[gc.Policy]map[string][]wave

func (w waves) add(policy gc.Policy, name string, v wave) {
	if w[policy] == nil {
		w[policy] = map[string][]wave{}
	}
	w[policy][name] = append(w[policy][name], v)
}

// waves runs a contender, measures one family for each policy, and adds the results to all.
func (b *fixture) waves(ctx context.Context, name string, s shape, all waves, policies ...gc.Policy) error {
	c := b.contender(name)
	return b.run(ctx, c, func(int) error {
		for _, policy := range policies {
			v, err := b.wave(ctx, c, policy, s)
			if err != nil {
				return err
			}
			all.add(policy, name, v)
		}
		return nil
	})
}

// measured summarizes the waves of one contender.
type measured struct {
	PerSecond result.Spread `json:"per_s"`
	First     float64       `json:"first_ms,omitempty"`
	Behind    float64       `json:"owner_behind_s,omitempty"` // how long owners stay after their last dependent
	Requests  float64       `json:"requests_per_object"`      // without lists and watches
	Others    float64       `json:"others_p99_ms"`
}

func (w waves) measured(policy gc.Policy) map[string]measured {
	all := map[string]measured{}
	for name, list := range w[policy] {
		var others []float64
		of := func(field func(wave) float64) (values []float64) {
			for _, v := range list {
				values = append(values, field(v))
			}
			return values
		}
		for _, v := range list {
			others = append(others, v.others...)
		}
		all[name] = measured{
			PerSecond: result.SpreadOf(of(func(v wave) float64 { return v.perSecond })),
			First:     result.Round(result.Median(of(func(v wave) float64 { return v.first }))),
			Behind:    result.Round(result.Median(of(func(v wave) float64 { return v.behind }))),
			Requests:  result.Round(result.Median(of(func(v wave) float64 { return v.requests }))),
			Others:    result.Round(result.Percentile(others, 99)),
		}
	}
	return all
}

var policies = []gc.Policy{gc.Background, gc.Foreground, gc.Orphan}

// measureSpeed measures each contender, in turn: as it is shipped, and at its best.
func measureSpeed(ctx context.Context, b *fixture, f *figures) error {
	quiet, err := b.besides(ctx, func() error { return benchmark.Pause(ctx, b.rest) })
	if err != nil {
		return err
	}
	f.OthersAlone = result.Round(result.Percentile(quiet, 99))
	few, many, best := waves{}, waves{}, waves{}
	// The peer's client limits decide how long this takes, so once is enough.
	if err := b.waves(ctx, peerShipped, b.one(b.slow), few, gc.Background); err != nil {
		return err
	}
	for range b.rounds {
		if err := b.waves(ctx, ebbShipped, b.one(b.slow), few, gc.Background); err != nil {
			return err
		}
		if err := b.waves(ctx, ebbShipped, b.one(b.dependents), many, gc.Background); err != nil {
			return err
		}
		if err := b.best(ctx, best, policies); err != nil {
			return err
		}
	}
	f.Few, f.Shipped = few.measured(gc.Background), many.measured(gc.Background)
	f.Best = map[gc.Policy]map[string]measured{}
	for policy := range best {
		f.Best[policy] = best.measured(policy)
	}
	return nil
}

// best measures one round of all contenders at their best, and of a client without a collector.
func (b *fixture) best(ctx context.Context, all waves, policies []gc.Policy) error {
	for _, policy := range policies {
		verb := gc.Delete
		if policy == gc.Orphan {
			verb = gc.RemoveReferences
		}
		v, err := b.limit(ctx, verb, b.dependents)
		if err != nil {
			return err
		}
		all.add(policy, client, v)
	}
	for _, name := range []string{ebbBest, peerFast, peerBest} {
		if err := b.waves(ctx, name, b.one(b.dependents), all, policies...); err != nil {
			return err
		}
	}
	return nil
}

// measureFsync measures background deletion with an etcd that waits for the disk.
func measureFsync(ctx context.Context, b *fixture, f *figures) error {
	all := waves{}
	for range b.rounds {
		if err := b.waves(ctx, ebbShipped, b.one(b.dependents), all, gc.Background); err != nil {
			return err
		}
		if err := b.best(ctx, all, policies[:1]); err != nil {
			return err
		}
	}
	f.Fsync = all.measured(gc.Background)
	return nil
}
