package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/bench/result"
)

// measureRates has each contender, in turn, delete objects that are all due at once.
func measureRates(ctx context.Context, b *fixture, f figures) error {
	for _, k := range kinds {
		rates, requests := map[string][]float64{}, map[string][]float64{}
		n := b.batch
		for range b.rounds {
			var deleted [2]traffic
			for i, c := range []contender.Contender{b.ebb(k, k.all), k.peer(b, false)} {
				t, err := b.overdue(ctx, c, k, n)
				if err != nil {
					return err
				}
				deleted[i] = t
				rates[c.Name] = append(rates[c.Name], perSecond(t))
				requests[c.Name] = append(requests[c.Name], float64(t.requests)/float64(len(t.deleted)))
			}
			f["differences"] += differences(deleted[0], deleted[1])
		}
		slow := min(k.slow, b.batch)
		t, err := b.overdue(ctx, k.peer(b, true), k, slow)
		if err != nil {
			return err
		}
		shipped, err := b.overdue(ctx, b.Ebb.Shipped(b.collectors(map[string]any{k.name: k.all})), k, slow)
		if err != nil {
			return err
		}
		f.set(k.name+"_shipped_per_s", perSecond(shipped))
		f.set(k.name+"_per_s", result.Median(rates["ebb"]))
		f.set(k.name+"_peer_per_s", result.Median(rates["peer"]))
		f.set(k.name+"_peer_default_per_s", perSecond(t))
		f.set(k.name+"_requests_per_object", result.Median(requests["ebb"]))
		f.set(k.name+"_peer_requests_per_object", result.Median(requests["peer"]))
	}
	return nil
}

// overdue has a contender delete n objects that have all been due for a while.
func (b *fixture) overdue(ctx context.Context, c contender.Contender, k kind, n int) (t traffic, err error) {
	long := time.Now().Add(-24 * time.Hour)
	if err := b.load(ctx, k, n, func(i int) time.Time { return long.Add(time.Duration(i) * time.Second) }); err != nil {
		return t, err
	}
	if b.audited, err = b.CP.SkipAudit(b.audited); err != nil {
		return t, err
	}
	err = c.Run(ctx, func(int) error {
		t, err = b.listen(ctx, c, k, k.leaving(n))
		return err
	})
	if err == nil {
		benchmark.Say("%-5s %-5s %8.0f a second, %.3f requests each; refused: %v", c.Name, k.name, perSecond(t), float64(t.requests)/float64(len(t.deleted)), t.refused)
	}
	return t, err
}

func perSecond(t traffic) float64 { return float64(len(t.deleted)-1) / t.span().Seconds() }

// differences returns how many objects only one of the two deleted.
func differences(a, b traffic) float64 {
	both := 0
	for name := range a.deleted {
		if _, is := b.deleted[name]; is {
			both++
		}
	}
	return float64(len(a.deleted) + len(b.deleted) - 2*both)
}

// measureDue has objects fall due at half the rate at which ebb can delete them, and measures how
// long after that each deletion is sent.
func measureDue(ctx context.Context, b *fixture, f figures) error {
	for _, k := range kinds {
		rate := cmp.Or(f[k.name+"_per_s"]/2, 100) // 100 if rates were not measured
		n := int(rate * b.lasts.Seconds())
		begin := time.Now().Add(b.ahead).Truncate(time.Second)
		// Times in objects have whole seconds: all objects of one second are due together.
		due := func(i int) time.Time {
			return begin.Add(time.Duration(float64(i) / rate * float64(time.Second))).Truncate(time.Second)
		}
		if err := b.load(ctx, k, n, due); err != nil {
			return err
		}
		var err error
		if b.audited, err = b.CP.SkipAudit(b.audited); err != nil {
			return err
		}
		c := b.ebb(k, k.timed)
		var t traffic
		err = c.Run(ctx, func(int) error {
			if err := benchmark.Until(ctx, 50*time.Millisecond, longest, "ebb has not listed everything", b.Ebb.Ready); err != nil {
				return err
			}
			if late := time.Since(begin); late > 0 {
				benchmark.Say("%s: the first were due %s before ebb was ready", k.name, late)
			}
			left := k
			left.keeps = 0
			t, err = b.listen(ctx, c, k, left.leaving(n))
			return err
		})
		if err != nil {
			return err
		}
		var late []float64
		for i := range n {
			if o := k.key(i); !t.deleted[o].IsZero() {
				late = append(late, float64(t.deleted[o].Sub(due(i)).Microseconds())/1e3)
			}
		}
		f.set(k.name+"_due_to_sent_p99_ms", result.Percentile(late, 99))
		benchmark.Say("%-5s %.0f a second are due: sent after %.0f ms at the median, %.0f at the 99th percentile, %.0f at most; the earliest %.0f",
			k.name, rate, result.Percentile(late, 50), result.Percentile(late, 99), slices.Max(late), slices.Min(late))
	}
	return nil
}
