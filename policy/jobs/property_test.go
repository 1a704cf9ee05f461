package jobs_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/gc/gctest"
	"github.com/ebb-agent/ebb/policy/jobs"
)

var jobType = gc.Type{APIVersion: "batch/v1", Kind: "Job", Resource: "jobs", Namespaced: true}

// rules are a configuration, in words of the oracle's own.
type rules struct {
	onlyCI        bool
	team, ci, all time.Duration // team: of namespaces with the label team=build
}

// cluster is what the collector should know of Namespaces.
type cluster struct {
	teams map[string]string // by name; "": no such label
	uids  map[string]string
	read  bool

	version int
}

func (r rules) config() (c jobs.Config) {
	if r.onlyCI {
		c.Namespaces = gc.Patterns{"ci-*"}
	}
	build := func(labels map[string]string) bool { return labels["team"] == "build" }
	c.Defaults = []jobs.Default{{Selects: build, After: r.team}, {Namespaces: gc.Patterns{"ci-?"}, After: r.ci}, {After: r.all}}
	return c
}

// oracle judges a Job by the text of the documentation.
func (r rules) oracle(o gctest.Object, in cluster, now time.Time, current bool) (gc.Reason, time.Time) {
	team, known := in.teams[o.Namespace]
	known = known && in.read || r.team <= 0
	job, never := o.Fields.(jobs.Job), time.Time{}
	ci := strings.HasPrefix(o.Namespace, "ci-")
	var ttl time.Duration
	why := gc.Reason("ttl_after_finished")
	if job.TTL != nil {
		ttl = time.Second * time.Duration(*job.TTL)
	} else {
		why = "default_ttl_after_finished"
		if ttl = r.all; r.team > 0 && team == "build" {
			ttl = r.team
		} else if ci && r.ci > 0 {
			ttl = r.ci
		}
	}
	switch {
	case o.Terminating:
		return "terminating", never
	case !job.Ended:
		return "not_finished", never
	case r.onlyCI && !ci:
		return "namespace_not_selected", never
	case job.TTL != nil && ttl < 0:
		return "invalid_ttl", never
	case job.TTL == nil && len(o.Owners) > 0:
		return "no_ttl", never
	case job.TTL == nil && !known:
		return "namespace_not_read", never
	case job.TTL == nil && ttl <= 0:
		return "no_ttl", never
	case job.Finished.IsZero():
		return "finish_time_missing", never
	case !current:
		return "type_not_read", never
	case job.Finished.After(now):
		why = "finished_in_the_future"
	}
	return why, job.Finished.Add(ttl)
}

var namespaceType = gc.Type{APIVersion: "v1", Kind: "Namespace", Resource: "namespaces"}

// step has something happen to Namespaces.
func (in *cluster) step(c *jobs.Collector, w *gctest.World, pick func(int) int) {
	name := w.Namespaces[pick(len(w.Namespaces))]
	o := gc.Object{APIVersion: "v1", Kind: "Namespace", Name: name, UID: in.uids[name]}
	observe := func(o gc.Object, team string) {
		in.version++
		o.ResourceVersion = fmt.Sprint(in.version)
		labels := map[string]string{"kubernetes.io/metadata.name": name}
		if team != "" {
			labels["team"] = team
		}
		c.Observe(w.Now, namespaceType, o, jobs.Namespace{Labels: labels})
	}
	switch pick(8) {
	case 0: // deleted
		c.Forget(w.Now, namespaceType, o)
		delete(in.uids, name)
		delete(in.teams, name)
	case 1:
		c.Unreadable(w.Now, namespaceType)
		in.read = false
	case 2, 3: // listed; one of a name that was not seen to go has gone, or has another UID
		c.Listing(w.Now, namespaceType)
		for _, name := range slices.Sorted(maps.Keys(in.uids)) {
			o := gc.Object{APIVersion: "v1", Kind: "Namespace", Name: name, UID: in.uids[name]}
			switch pick(4) {
			case 0:
				delete(in.uids, name)
				delete(in.teams, name)
				continue
			case 1:
				o.UID += "+"
				in.uids[name] = o.UID
			}
			observe(o, in.teams[name])
		}
		c.Synced(w.Now, namespaceType)
		in.read = true
	default:
		if o.UID == "" {
			o.UID = fmt.Sprint("space-", in.version)
		}
		in.uids[name], in.teams[name] = o.UID, []string{"", "build", "other"}[pick(3)]
		observe(o, in.teams[name])
	}
}

// pick a number below n. Ranges of rapid prefer what is small.
func pick(t *rapid.T, n int) (v int) {
	for m := 1; m < n; m *= 2 {
		if v *= 2; rapid.Bool().Draw(t, "bit") {
			v++
		}
	}
	return v % n
}

// TestHistories has random histories of a cluster judged from scratch at each step.
func TestHistories(t *testing.T) {
	deleted := 0
	gctest.Histories(t, func(t *rapid.T) {
		var r rules
		c := jobs.New(r.config())
		in := cluster{teams: map[string]string{}, uids: map[string]string{}}
		pick := func(n int) int { return pick(t, n) }
		w := gctest.World{
			Collector: c, Name: "jobs", Namespaces: []string{"default", "ci-1", "ci-2"}, Type: jobType, Policy: gc.Foreground, Pick: pick, Fatalf: t.Fatalf, Now: time.Unix(1e9, 0),
			Make: func(o *gctest.Object, now time.Time) {
				var job jobs.Job
				if n := pick(8); n > 1 {
					ttl := []int32{0, 1, 60, 100, 36000, 1<<31 - 1, -1 << 31, -1}[pick(8)]
					job.TTL = &ttl
				}
				if job.Ended = pick(4) > 0; job.Ended && pick(8) > 0 {
					job.Finished = now.Truncate(time.Second).Add(time.Duration(pick(1000)-800) * time.Second)
				}
				if o.Owners = nil; pick(4) == 0 {
					o.Owners = []gc.Reference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: "c"}}
				}
				o.Terminating = o.Terminating || pick(10) == 0
				o.Fields = job
			},
			Configure: func(now time.Time) {
				some := []time.Duration{-time.Hour, 0, 90 * time.Second, time.Hour}
				r = rules{pick(4) == 0, some[pick(4)], some[pick(4)], some[pick(4)]}
				c.Configure(now, r.config())
			},
			Oracle: func(o gctest.Object, now time.Time, current bool) (gc.Reason, time.Time) {
				return r.oracle(o, in, now, current)
			},
		}
		w.Beside.Step = func() { in.step(c, &w, pick) }
		w.Beside.Restored = func() { in = cluster{teams: map[string]string{}, uids: map[string]string{}} }
		for range 200 {
			w.Step()
		}
		deleted += w.Deleted
	})
	if t.Logf("%d were deleted", deleted); deleted == 0 {
		t.Error("nothing was ever deleted")
	}
}
