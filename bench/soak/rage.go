package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/bench/soak/plan"
	"github.com/ebb-agent/ebb/tools/peers"
)

// figures are written to soak-cluster.json.
type figures struct {
	Seed       uint64         `json:"seed"`
	Duration   float64        `json:"duration_s"`
	Operations int            `json:"operations"`
	Hourly     float64        `json:"operations_per_hour"`
	Faults     int            `json:"faults"`
	ByKind     map[string]int `json:"faults_by_kind"`
	Objects    int            `json:"objects"`
	Deletions  int            `json:"deletions"`          // by ebb
	Changes    int            `json:"changes"`            // by ebb: references and finalizers
	Restarts   int            `json:"restarts"`           // of the controllers
	Ended      int            `json:"deletions_of_ended"` // by all collectors but the cascade
	Collected  map[string]int `json:"collected_by_kind"`  // the same
	Raced      int            `json:"excused_by_race"`
	Unseen     int            `json:"excused_as_unseen"`

	Wrong       int     `json:"wrong_deletions"`
	Others      int     `json:"other_violations"`
	Missed      int     `json:"missed"`
	Late        float64 `json:"late_s_max"`
	LateOutside float64 `json:"late_outside_s_max"`
	Requests    float64 `json:"requests_per_deletion"`
	Lists       int     `json:"lists"`
	RSS         float64 `json:"rss_mib_max"`
}

// rage runs operations and faults for as long as the options say.
func (b *fixture) rage(ctx context.Context, g *plan.Generator, f *figures) error {
	first := int(b.driver.next.Load())
	if b.plant {
		if err := b.wrong(ctx); err != nil {
			return err
		}
	}
	raging, end := context.WithTimeout(ctx, b.soak)
	defer end()
	benchmark.Say("operations and faults for %v", b.soak)
	begun := time.Now()
	injected := newFaults(b, first)
	var group sync.WaitGroup
	errs := make([]error, 2)
	for i, kinds := range [][]string{plan.Outages, plan.Conditions} {
		if kinds = b.wanted(kinds); len(kinds) == 0 {
			continue
		}
		group.Go(func() {
			if errs[i] = injected.run(raging, plan.NewFaults(b.seed, uint64(2+i), b.gap, kinds)); errs[i] != nil {
				b.failure(errs[i])
			}
		})
	}
	group.Go(func() { b.watch(raging) })
	pace := time.NewTicker(time.Second / time.Duration(b.rate))
	defer pace.Stop()
	for raging.Err() == nil {
		b.driver.start(raging, g.Next())
		select {
		case <-raging.Done():
		case <-pace.C:
		}
	}
	group.Wait()
	f.Duration = result.Round(time.Since(begun).Seconds())
	b.driver.group.Wait()
	f.Operations = int(b.driver.next.Load()) - first
	f.Hourly = result.Round(float64(f.Operations) / f.Duration * 3600)
	f.ByKind = injected.counts()
	for _, n := range f.ByKind {
		f.Faults += n
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// wanted returns the faults that the options ask for.
func (b *fixture) wanted(kinds []string) []string {
	if b.only == "" {
		return kinds
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return !slices.Contains(strings.Split(b.only, ","), k) })
}

// wrong deletes an object whose owner lives, on purpose, and does not announce this to the oracle.
func (b *fixture) wrong(ctx context.Context) error {
	const path = "/api/v1/namespaces/soak-0/configmaps"
	var owner answer
	if err := b.client.insist(ctx, http.MethodPost, path, object{"metadata": object{"name": "soak-planted-owner"}}, &owner); err != nil {
		return err
	}
	if err := b.client.insist(ctx, http.MethodPost, path, object{"metadata": object{"name": "soak-planted", "ownerReferences": []object{
		{"apiVersion": "v1", "kind": "ConfigMap", "name": "soak-planted-owner", "uid": owner.Metadata.UID}}}}, nil); err != nil {
		return err
	}
	return b.client.insist(ctx, http.MethodDelete, path+"/soak-planted", nil, nil)
}

// watch reports violations and measures the controllers' memory, until ctx ends. It also writes the
// inventory and confirms restores.
func (b *fixture) watch(ctx context.Context) {
	var volumes []string
	for n := 1; sleep(ctx, 500*time.Millisecond); n++ {
		volumes = b.lookAtVolumes(volumes)
		if err := b.writeInventory(); err != nil {
			b.failure(err)
		}
		if n%30 == 0 {
			b.confirmRestore(ctx)
		}
		for _, c := range b.controllers {
			c.measure()
		}
		all := b.oracle.Violations()
		for ; b.reported < len(all); b.reported++ {
			benchmark.Say("VIOLATION %s", all[b.reported])
			if !b.goOn {
				b.failure(fmt.Errorf("violation: %s", b.oracle.Report(all[b.reported])))
				return
			}
		}
	}
}

// account computes the figures of the whole soak.
func (b *fixture) account(f *figures) error {
	counts := b.oracle.Counts()
	f.Deletions, f.Changes, f.Ended, f.Collected, f.Raced, f.Unseen = counts.Deletions, counts.Changes, counts.Ended, counts.Collected, counts.Raced, counts.Unseen
	for _, v := range b.oracle.Violations() {
		if v.Deletion() {
			f.Wrong++
		} else {
			f.Others++
		}
	}
	for _, c := range b.controllers {
		c.measure()
		starts, peak := c.seen()
		f.Restarts += starts - 1
		f.RSS = max(f.RSS, result.Round(float64(peak)/(1<<20)))
	}
	requests := 0
	for _, log := range []string{b.cp.AuditLog(), b.secondAudit()} {
		if _, err := peers.ReadAuditLog(log, 0, func(e peers.AuditEvent) {
			switch {
			case e.User.Username != collectorUser, e.Verb == "watch", e.ObjectRef.Resource == "leases":
			case e.Verb == "list":
				f.Lists++
				requests++
			default:
				requests++
			}
		}); err != nil {
			return err
		}
	}
	f.Requests = result.Round(float64(requests) / float64(max(1, f.Deletions+f.Changes)))
	return nil
}

// verdict returns an error that names all that is wrong, or nil.
func (b *fixture) verdict(f figures) error {
	var wrong []string
	for _, c := range []struct {
		is   bool
		what string
	}{
		{f.Wrong > 0, fmt.Sprintf("%d wrong deletions", f.Wrong)},
		{f.Others > 0, fmt.Sprintf("%d other violations", f.Others)},
		{f.Missed > 0, fmt.Sprintf("%d missed", f.Missed)},
		{f.Requests > b.requests, fmt.Sprintf("%v requests for each deletion, at most %v are well", f.Requests, b.requests)},
	} {
		if c.is {
			wrong = append(wrong, c.what)
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	benchmark.Say("nothing wrong, nothing missed")
	return nil
}

// keepLogs saves the logs, and the histories of all that is wrong or outstanding.
func (b *fixture) keepLogs() error {
	dir := filepath.Join(b.keep, fmt.Sprintf("seed-%d-%s", b.seed, time.Now().Format("0102-150405")))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var reports strings.Builder
	for _, v := range b.oracle.Violations() {
		fmt.Fprintln(&reports, b.oracle.Report(v))
	}
	for _, d := range b.oracle.Outstanding(time.Now()) {
		fmt.Fprintf(&reports, "outstanding: %s %s\n%s\n", d.What, d.Name, b.oracle.History(d.UID))
	}
	err := os.WriteFile(filepath.Join(dir, "histories.txt"), []byte(reports.String()), 0o644)
	for _, from := range []string{b.dir, filepath.Join(b.cp.Dir(), "logs")} {
		err = errors.Join(err, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".log" {
				return err
			}
			return benchmark.Copy(filepath.Join(dir, filepath.Base(path)), path, 0o644)
		}))
	}
	benchmark.Say("logs are in %s", dir)
	return err
}
