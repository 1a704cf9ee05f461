package jobs_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/jobs"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func seconds(n int32) *int32 { return &n }

func object(namespace, name, version string) gc.Object {
	return gc.Object{APIVersion: "batch/v1", Kind: "Job", Namespace: namespace, Name: name, UID: "uid-" + name, ResourceVersion: version}
}

// one is a collector that has listed one Job.
func one(config jobs.Config, o gc.Object, job jobs.Job) *jobs.Collector {
	c := jobs.New(config)
	c.Listing(noon, jobType)
	c.Observe(noon, jobType, o, job)
	c.Synced(noon, jobType)
	return c
}

// TestClaims: a Job that is being deleted was due, or may have been, or was not.
func TestClaims(t *testing.T) {
	byLabel := jobs.Config{Defaults: []jobs.Default{{Selects: func(map[string]string) bool { return false }, After: time.Hour}}}
	for name, test := range map[string]struct {
		config jobs.Config
		job    jobs.Job
		want   bool
	}{
		"due":                  {job: jobs.Job{TTL: seconds(60), Ended: true, Finished: noon.Add(-time.Minute)}, want: true},
		"due later":            {job: jobs.Job{TTL: seconds(61), Ended: true, Finished: noon.Add(-time.Minute)}},
		"running":              {job: jobs.Job{TTL: seconds(0)}},
		"no TTL":               {job: jobs.Job{Ended: true, Finished: noon.Add(-time.Hour)}},
		"labels are not known": {config: byLabel, job: jobs.Job{Ended: true, Finished: noon.Add(-time.Hour)}, want: true},
		"elsewhere":            {config: jobs.Config{Namespaces: gc.Patterns{"ci"}}, job: jobs.Job{TTL: seconds(0), Ended: true, Finished: noon}},
	} {
		o := object("default", "j", "7")
		if one(test.config, o, test.job).Claims(o.UID) {
			t.Errorf("%s: claimed while it is not being deleted", name)
		}
		o.Terminating = true
		if got := one(test.config, o, test.job).Claims(o.UID); got != test.want {
			t.Errorf("%s: claimed %v, want %v", name, got, test.want)
		}
	}
}

// TestRules has a row for each rule of the peer, and for each that is ebb's own.
func TestRules(t *testing.T) {
	const after = time.Hour
	defaults := jobs.Config{Defaults: []jobs.Default{{Namespaces: gc.Patterns{"ci-*"}, After: after}, {Namespaces: gc.Patterns{"ci-slow"}, After: 9 * after}}}
	ended := jobs.Job{Ended: true, Finished: noon}
	with := func(ttl int32, finished time.Time) jobs.Job {
		return jobs.Job{TTL: seconds(ttl), Ended: true, Finished: finished}
	}
	for _, test := range []struct {
		name      string
		config    jobs.Config
		namespace string
		job       jobs.Job
		owned     bool
		going     bool
		why       gc.Reason
		due       time.Time
	}{
		{name: "runs", job: jobs.Job{TTL: seconds(0)}, why: jobs.Running},
		{name: "no TTL", job: ended, why: jobs.NoTTL},
		{name: "TTL 0", job: with(0, noon), why: jobs.TTL, due: noon},
		{name: "TTL", job: with(100, noon.Add(-time.Minute)), why: jobs.TTL, due: noon.Add(40 * time.Second)},
		{name: "owned, with a TTL", owned: true, job: with(100, noon), why: jobs.TTL, due: noon.Add(100 * time.Second)},
		{name: "overdue for years", job: with(100, noon.AddDate(-20, 0, 0)), why: jobs.TTL, due: noon.AddDate(-20, 0, 0).Add(100 * time.Second)},
		{name: "the longest TTL", job: with(math.MaxInt32, noon), why: jobs.TTL, due: noon.Add(math.MaxInt32 * time.Second)},
		{name: "negative TTL", job: with(-1, noon.AddDate(-1, 0, 0)), why: jobs.InvalidTTL},
		{name: "the most negative TTL", job: with(math.MinInt32, noon), why: jobs.InvalidTTL},
		{name: "no finish time", job: jobs.Job{TTL: seconds(1), Ended: true}, why: jobs.FinishTimeMissing},
		{name: "finished within a second", job: with(100, noon.Add(time.Nanosecond)), why: jobs.FinishedInFuture, due: noon.Add(101 * time.Second)},
		{name: "finished in the future", job: with(100, noon.Add(5*time.Hour)), why: jobs.FinishedInFuture, due: noon.Add(5*time.Hour + 100*time.Second)},
		{name: "finished beyond all clocks", job: with(math.MaxInt32, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)), why: jobs.FinishedInFuture, due: time.Unix(0, math.MaxInt64)},
		{name: "finished before all clocks", job: with(100, time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC)), why: jobs.TTL, due: time.Unix(0, math.MinInt64)},
		{name: "terminating", going: true, job: with(0, noon), why: jobs.Terminating},
		{name: "default", config: defaults, namespace: "ci-1", job: ended, why: jobs.DefaultTTL, due: noon.Add(after)},
		{name: "the first default counts", config: defaults, namespace: "ci-slow", job: ended, why: jobs.DefaultTTL, due: noon.Add(after)},
		{name: "its own TTL is longer", config: defaults, namespace: "ci-1", job: with(36000, noon), why: jobs.TTL, due: noon.Add(10 * after)},
		{name: "default elsewhere", config: defaults, namespace: "ci", job: ended, why: jobs.NoTTL},
		{name: "default, owned", config: defaults, namespace: "ci-1", owned: true, job: ended, why: jobs.NoTTL},
		{name: "default, runs", config: defaults, namespace: "ci-1", job: jobs.Job{Finished: noon}, why: jobs.Running},
		{name: "default, no finish time", config: defaults, namespace: "ci-1", job: jobs.Job{Ended: true}, why: jobs.FinishTimeMissing},
		{name: "default, invalid TTL", config: defaults, namespace: "ci-1", job: with(-5, noon), why: jobs.InvalidTTL},
		{name: "another namespace", config: jobs.Config{Namespaces: gc.Patterns{"ci-*"}}, namespace: "prod", job: with(0, noon), why: jobs.OtherNamespace},
		{name: "that namespace", config: jobs.Config{Namespaces: gc.Patterns{"ci-*"}}, namespace: "ci-1", job: with(0, noon), why: jobs.TTL, due: noon},
	} {
		o := object(test.namespace, "j", "7")
		if o.Terminating = test.going; test.owned {
			o.Owners = []gc.Reference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: "c"}}
		}
		c := one(test.config, o, test.job)
		f, known := c.Explain(gc.Coordinates{UID: o.UID})
		if !known || f.Reason != test.why || !f.Due.Equal(test.due) {
			t.Errorf("%s: %s, due %v; want %s, due %v", test.name, f.Reason, f.Due, test.why, test.due)
		}
		if before := time.Unix(0, 0); test.due.Before(before) && !test.due.IsZero() {
			test.due = before // no request was ever held back for longer
		}
		if !c.Next().Equal(test.due) {
			t.Errorf("%s: next at %v", test.name, c.Next())
		}
		if test.due.IsZero() {
			if got := c.Ready(noon.AddDate(250, 0, 0), 10); len(got) > 0 {
				t.Errorf("%s: it goes: %v", test.name, got)
			}
			continue
		}
		if got := c.Ready(test.due.Add(-1), 10); len(got) > 0 {
			t.Errorf("%s: it goes early", test.name)
		}
		got := c.Ready(test.due, 10)
		if len(got) != 1 || got[0].Verb != gc.Delete || got[0].Policy != gc.Foreground || got[0].ResourceVersion != "7" ||
			got[0].Object != (gc.Coordinates{APIVersion: "batch/v1", Kind: "Job", Resource: "jobs", Namespace: test.namespace, Name: "j", UID: "uid-j"}) {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// TestLongerTTLWins: a TTL that grows while the Job waits, or while its Delete is on its
// way, keeps it.
func TestLongerTTLWins(t *testing.T) {
	c := one(jobs.Config{}, object("", "j", "1"), jobs.Job{TTL: seconds(10), Ended: true, Finished: noon})
	c.Observe(noon, jobType, object("", "j", "2"), jobs.Job{TTL: seconds(60), Ended: true, Finished: noon})
	if got := c.Ready(noon.Add(59*time.Second), 10); len(got) > 0 {
		t.Fatalf("it went by its first TTL: %v", got)
	}
	now := noon.Add(time.Minute)
	sent := c.Ready(now, 10)
	if len(sent) != 1 || sent[0].ResourceVersion != "2" {
		t.Fatalf("%v", sent)
	}
	c.Finished(now, sent[0].ID, gc.Conflict) // the server has version 3
	c.Observe(now, jobType, object("", "j", "3"), jobs.Job{TTL: seconds(3600), Ended: true, Finished: noon})
	if next := c.Next(); !next.Equal(noon.Add(time.Hour)) {
		t.Errorf("next at %v", next)
	}
	c.Observe(now, jobType, object("", "j", "4"), jobs.Job{Ended: true, Finished: noon})
	if next := c.Next(); !next.IsZero() {
		t.Errorf("without a TTL, next at %v", next)
	}
	c.Observe(now, jobType, object("", "j", "5"), jobs.Job{TTL: seconds(1), Ended: true, Finished: noon})
	if got := c.Ready(now, 10); len(got) != 1 {
		t.Errorf("shorter again: %v", got)
	}
}

// TestOldestFirst: what is due at the start goes in the order in which it became due,
// whatever the order of the list, and not before the list has ended.
func TestOldestFirst(t *testing.T) {
	c := jobs.New(jobs.Config{})
	c.Listing(noon, jobType)
	const n = 100
	for i := range n {
		c.Observe(noon, jobType, object("", fmt.Sprint("j", i), "1"), jobs.Job{TTL: seconds(0), Ended: true, Finished: noon.Add(-time.Duration(i*37%n) * time.Minute)})
	}
	if got := c.Ready(noon, n); len(got) > 0 || !c.Next().IsZero() {
		t.Fatalf("%d go within a list", len(got))
	}
	c.Synced(noon, jobType)
	last := time.Time{}
	for _, a := range c.Ready(noon, n) {
		f, _ := c.Explain(a.Object)
		if f.Due.Before(last) {
			t.Errorf("%s is due at %v, after one at %v", a.Object.Name, f.Due, last)
		}
		last = f.Due
	}
}

// TestUnreadable: nothing is asked for while Jobs cannot be read, be it that a watch goes
// on or that they are listed anew.
func TestUnreadable(t *testing.T) {
	job := jobs.Job{TTL: seconds(0), Ended: true, Finished: noon}
	for _, relist := range []bool{false, true} {
		c := one(jobs.Config{}, object("", "j", "1"), job)
		c.Unreadable(noon, jobType)
		if got := c.Ready(noon, 10); len(got) > 0 {
			t.Fatalf("unreadable: %v", got)
		}
		if f, _ := c.Explain(gc.Coordinates{UID: "uid-j"}); f.Reason != jobs.Unread || !f.Due.IsZero() {
			t.Errorf("unreadable: %+v", f)
		}
		if relist {
			c.Listing(noon, jobType)
			c.Observe(noon, jobType, object("", "k", "1"), job)
		}
		if got := c.Ready(noon, 10); len(got) > 0 {
			t.Fatalf("relisting: %v", got)
		}
		c.Synced(noon, jobType)
		want := map[bool]string{false: "j", true: "k"}[relist]
		if got := c.Ready(noon, 10); len(got) != 1 || got[0].Object.Name != want {
			t.Errorf("relist %v: %v", relist, got)
		}
	}
}

// TestWithheld: what the gate does not want is not asked for again before the Job changes
// or the gate releases it.
func TestWithheld(t *testing.T) {
	job := jobs.Job{TTL: seconds(0), Ended: true, Finished: noon}
	c := one(jobs.Config{}, object("", "j", "1"), job)
	withhold := func() {
		t.Helper()
		got := c.Ready(noon, 10)
		if len(got) != 1 {
			t.Fatalf("%v", got)
		}
		c.Finished(noon, got[0].ID, gc.Withheld)
		if got := c.Ready(noon.AddDate(1, 0, 0), 10); len(got) > 0 {
			t.Fatalf("again: %v", got)
		}
	}
	withhold()
	c.Observe(noon, jobType, object("", "j", "1"), job) // a list returns the same
	if got := c.Ready(noon, 10); len(got) > 0 {
		t.Fatalf("unchanged: %v", got)
	}
	c.Observe(noon, jobType, object("", "j", "2"), job)
	withhold()
	c.Configure(noon, jobs.Config{Defaults: []jobs.Default{{}}})
	if got := c.Ready(noon, 10); len(got) > 0 {
		t.Fatalf("configured: %v", got)
	}
	c.Release(noon)
	withhold()
}

// TestNoFields: an object without what was wanted of it is kept.
func TestNoFields(t *testing.T) {
	c := jobs.New(jobs.Config{Defaults: []jobs.Default{{Namespaces: gc.Patterns{"*"}, After: 1}}})
	c.Observe(noon, jobType, object("", "j", "1"), nil)
	c.Synced(noon, jobType)
	if f, known := c.Explain(gc.Coordinates{UID: "uid-j"}); !known || f.Reason != jobs.Running || !c.Next().IsZero() {
		t.Errorf("%+v", f)
	}
}

const many = 50_000

// fill gives a collector of many Jobs, in a hundred namespaces, all with a TTL, and the
// live heap it takes.
func fill() (*jobs.Collector, float64) {
	ttl := seconds(3600)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := jobs.New(jobs.Config{})
	c.Listing(noon, jobType)
	for i := range many {
		o := object(fmt.Sprint("namespace-", i%100), fmt.Sprintf("nightly-report-%08d", 29000000+i), fmt.Sprint(1000000+i))
		o.UID = fmt.Sprintf("%08x-89ab-4cde-8f01-%012x", i*2654435761&0xffffffff, i)
		c.Observe(noon, jobType, o, jobs.Job{TTL: ttl, Ended: true, Finished: noon.Add(time.Duration(i) * time.Second)})
	}
	c.Synced(noon, jobType)
	runtime.GC()
	runtime.ReadMemStats(&after)
	return c, float64(after.HeapAlloc-before.HeapAlloc) / many
}

func TestBytesPerObject(t *testing.T) {
	c, bytes := fill()
	if t.Logf("%.0f bytes per Job", bytes); bytes > 300 {
		t.Errorf("%.0f bytes per Job, at most 300", bytes)
	}
	runtime.KeepAlive(c)
}

func BenchmarkCollect(b *testing.B) {
	for b.Loop() {
		c, bytes := fill()
		now := noon.AddDate(1, 0, 0)
		went := 0
		for _, a := range c.Ready(now, many) {
			c.Finished(now, a.ID, gc.Done)
			c.Forget(now, jobType, gc.Object{UID: a.Object.UID})
			went++
		}
		if went != many || c.Len() != 0 {
			b.Fatalf("%d of %d went", went, many)
		}
		b.ReportMetric(bytes, "heap-B/object")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/object")
}
