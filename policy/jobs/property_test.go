package jobs_test

import (
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
	onlyCI  bool
	ci, all time.Duration
}

func (r rules) config() (c jobs.Config) {
	if r.onlyCI {
		c.Namespaces = gc.Patterns{"ci-*"}
	}
	c.Defaults = []jobs.Default{{Namespaces: gc.Patterns{"ci-?"}, After: r.ci}, {Namespaces: gc.Patterns{"*"}, After: r.all}}
	return c
}

// oracle judges a Job by the text of the documentation.
func (r rules) oracle(o gctest.Object, now time.Time, current bool) (gc.Reason, time.Time) {
	job, never := o.Fields.(jobs.Job), time.Time{}
	ci := strings.HasPrefix(o.Namespace, "ci-")
	var ttl time.Duration
	why := gc.Reason("ttl_after_finished")
	if job.TTL != nil {
		ttl = time.Second * time.Duration(*job.TTL)
	} else {
		why = "default_ttl_after_finished"
		if ttl = r.all; ci && r.ci > 0 {
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
	case job.TTL == nil && (len(o.Owners) > 0 || ttl <= 0):
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
	rapid.Check(t, func(t *rapid.T) {
		var r rules
		c := jobs.New(r.config())
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
				r = rules{pick(4) == 0, some[pick(4)], some[pick(4)]}
				c.Configure(now, r.config())
			},
			Oracle: func(o gctest.Object, now time.Time, current bool) (gc.Reason, time.Time) {
				return r.oracle(o, now, current)
			},
		}
		for range 200 {
			w.Step()
		}
		deleted += w.Deleted
	})
	if t.Logf("%d were deleted", deleted); deleted == 0 {
		t.Error("nothing was ever deleted")
	}
}
