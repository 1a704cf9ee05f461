package csrs_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/ebb-agent/ebb/policy/csrs"
	"github.com/ebb-agent/ebb/policy/gc"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func object(name, version string) gc.Object {
	return gc.Object{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest", Name: name, UID: "uid-" + name, ResourceVersion: version}
}

func one(config csrs.Config, r csrs.Request) *csrs.Collector {
	c := csrs.New(config)
	c.Listing(noon, requestType)
	c.Observe(noon, requestType, object("r", "7"), r)
	c.Synced(noon, requestType)
	return c
}

func since(at time.Time) csrs.Condition { return csrs.Condition{Is: true, Since: at} }

// TestRules has a row for each rule of the peer, and what becomes of several that apply.
func TestRules(t *testing.T) {
	const day = 24 * time.Hour
	var none time.Time
	long := noon.AddDate(1, 0, 0)
	for _, test := range []struct {
		name    string
		request csrs.Request
		why     gc.Reason
		last    time.Time // at which it is still kept; zero: it always is
	}{
		{"pending", csrs.Request{Created: noon}, csrs.Pending, noon.Add(day)},
		{"pending without a creation", csrs.Request{}, csrs.TimeMissing, none},
		{"pending with a certificate", csrs.Request{Created: noon, Issued: true, NotAfter: long}, csrs.Pending, noon.Add(day)},
		{"pending with one that has expired", csrs.Request{Created: noon, Issued: true, NotAfter: noon}, csrs.Pending, noon.Add(day)},
		{"conditions of other types", csrs.Request{Created: noon, Handled: true}, csrs.Undecided, none},
		{"approved", csrs.Request{Created: noon, Handled: true, Approved: since(noon.Add(time.Minute))}, csrs.Unissued, noon.Add(day + time.Minute)},
		{"approved after days", csrs.Request{Created: noon.AddDate(0, 0, -9), Handled: true, Approved: since(noon)}, csrs.Unissued, noon.Add(day)},
		{"approved, no time given", csrs.Request{Created: noon, Handled: true, Approved: since(none)}, csrs.TimeMissing, none},
		{"issued", csrs.Request{Created: noon, Handled: true, Approved: since(noon), Issued: true, NotAfter: long}, csrs.Issued, noon.Add(time.Hour)},
		{"issued, and expires sooner", csrs.Request{Handled: true, Approved: since(noon), Issued: true, NotAfter: noon.Add(time.Minute)}, csrs.Expired, noon.Add(time.Minute)},
		{"issued, and expires at that moment", csrs.Request{Handled: true, Approved: since(noon), Issued: true, NotAfter: noon.Add(time.Hour)}, csrs.Issued, noon.Add(time.Hour)},
		{"issued, and expires never", csrs.Request{Handled: true, Approved: since(none), Issued: true, NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, csrs.Expired, time.Unix(0, math.MaxInt64)},
		{"issued, no time given", csrs.Request{Handled: true, Approved: since(none), Issued: true, NotAfter: long}, csrs.Expired, long},
		{"issued, garbled", csrs.Request{Handled: true, Approved: since(noon), Issued: true}, csrs.IssuedUnreadable, noon.Add(time.Hour)},
		{"issued, garbled, no time given", csrs.Request{Handled: true, Approved: since(none), Issued: true}, csrs.TimeMissing, none},
		{"issued without approval", csrs.Request{Created: noon, Handled: true, Issued: true, NotAfter: noon}, csrs.Undecided, none},
		{"denied", csrs.Request{Created: noon, Handled: true, Denied: since(noon)}, csrs.Denied, noon.Add(time.Hour)},
		{"denied, no time given", csrs.Request{Created: noon, Handled: true, Denied: since(none)}, csrs.TimeMissing, none},
		{"failed", csrs.Request{Created: noon, Handled: true, Failed: since(noon)}, csrs.Failed, noon.Add(time.Hour)},
		{"approved, and failed", csrs.Request{Handled: true, Approved: since(noon), Failed: since(noon.Add(time.Minute))}, csrs.Failed, noon.Add(time.Hour + time.Minute)},
		{"denied, and failed before", csrs.Request{Handled: true, Denied: since(noon), Failed: since(noon.Add(-time.Minute))}, csrs.Failed, noon.Add(time.Hour - time.Minute)},
		{"denied, and failed later", csrs.Request{Handled: true, Denied: since(noon), Failed: since(noon.Add(time.Minute))}, csrs.Denied, noon.Add(time.Hour)},
		{"denied in the future", csrs.Request{Handled: true, Denied: since(noon.Add(9 * time.Hour))}, csrs.Denied, noon.Add(10 * time.Hour)},
		{"within a second", csrs.Request{Created: noon.Add(1)}, csrs.Pending, noon.Add(day + time.Second)},
		{"of long ago", csrs.Request{Created: noon.AddDate(-30, 0, 0)}, csrs.Pending, noon.AddDate(-30, 0, 0).Add(day)},
	} {
		test.request.Signer = "example.com/serving"
		c := one(csrs.Config{}, test.request)
		f, known := c.Explain(gc.Coordinates{UID: "uid-r"})
		if !known || f.Reason != test.why || f.Due.IsZero() != test.last.IsZero() {
			t.Errorf("%s: %+v, want %s", test.name, f, test.why)
		}
		if test.last.IsZero() {
			if got := c.Ready(noon.AddDate(250, 0, 0), 10); len(got) > 0 || !c.Next().IsZero() {
				t.Errorf("%s: it goes: %v", test.name, got)
			}
			continue
		}
		if test.last.Equal(time.Unix(0, math.MaxInt64)) {
			test.last = test.last.Add(-1) // beyond what is counted
		}
		if got := c.Ready(test.last, 10); len(got) > 0 {
			t.Errorf("%s: it goes early", test.name)
		}
		got := c.Ready(test.last.Add(1), 10)
		if len(got) != 1 || got[0].Verb != gc.Delete || got[0].ResourceVersion != "7" || got[0].Reason != test.why ||
			got[0].Object != (gc.Coordinates{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest", Resource: "certificatesigningrequests", Name: "r", UID: "uid-r"}) {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// TestSigners: the first entry that names a signer counts, and what it does not set is as
// for all others.
func TestSigners(t *testing.T) {
	config := csrs.Config{
		Patience: csrs.Patience{Pending: 2 * time.Hour, Refused: 3 * time.Hour},
		Signers: []csrs.Signer{
			{Name: "example.com/slow", Patience: csrs.Patience{Pending: 240 * time.Hour}},
			{Name: "example.com/*", Patience: csrs.Patience{Pending: 5 * time.Hour, Unissued: 6 * time.Hour, Refused: -1}},
			{Name: "example.com/never", Patience: csrs.Patience{Pending: 1}},
		},
	}
	pending, denied := csrs.Request{Created: noon}, csrs.Request{Handled: true, Denied: since(noon)}
	approved := csrs.Request{Handled: true, Approved: since(noon)}
	for _, test := range []struct {
		signer  string
		request csrs.Request
		want    time.Duration
	}{
		{"other.io/a", pending, 2 * time.Hour},
		{"other.io/a", denied, 3 * time.Hour},
		{"other.io/a", approved, 24 * time.Hour},
		{"", pending, 2 * time.Hour},
		{"example.com/slow", pending, 240 * time.Hour},
		{"example.com/slow", approved, 24 * time.Hour},
		{"example.com/slow", denied, 3 * time.Hour},
		{"example.com/a", pending, 5 * time.Hour},
		{"example.com/a", approved, 6 * time.Hour},
		{"example.com/a", denied, 3 * time.Hour},
		{"example.com/never", pending, 5 * time.Hour},
		{"sub.example.com/a", pending, 2 * time.Hour},
	} {
		test.request.Signer = test.signer
		for range 2 { // as it was made, and as it was configured
			c := one(config, test.request)
			if got := c.Next().Sub(noon); got != test.want+1 {
				t.Errorf("%+v: after %v, not %v", test.request, got, test.want)
			}
			c = one(csrs.Config{}, test.request)
			c.Configure(noon, config)
			if got := c.Next().Sub(noon); got != test.want+1 {
				t.Errorf("configured, %+v: after %v, not %v", test.request, got, test.want)
			}
		}
	}
}

// TestSignerIsKept: what is observed shares the memory of a batch, which is used again.
func TestSignerIsKept(t *testing.T) {
	c := csrs.New(csrs.Config{})
	batch := []byte("example.com/slow")
	c.Observe(noon, requestType, object("r", "1"), csrs.Request{Signer: unsafe.String(&batch[0], len(batch)), Created: noon})
	clear(batch)
	c.Synced(noon, requestType)
	c.Configure(noon, csrs.Config{Signers: []csrs.Signer{{Name: "example.com/slow", Patience: csrs.Patience{Pending: time.Minute}}}})
	if got := c.Next().Sub(noon); got != time.Minute+1 {
		t.Errorf("after %v", got)
	}
}

// TestApprovalWins: a request that is approved while its Delete is on its way stays.
func TestApprovalWins(t *testing.T) {
	c := one(csrs.Config{}, csrs.Request{Created: noon})
	now := noon.Add(25 * time.Hour)
	sent := c.Ready(now, 10)
	if len(sent) != 1 {
		t.Fatalf("%v", sent)
	}
	c.Observe(now, requestType, object("r", "8"), csrs.Request{Created: noon, Handled: true, Approved: since(now)})
	c.Finished(now, sent[0].ID, gc.Conflict)
	if next := c.Next(); !next.Equal(now.Add(24*time.Hour + 1)) {
		t.Errorf("next at %v", next)
	}
}

// TestTypes: that one type cannot be read, or begins a list, is nothing to the other.
func TestTypes(t *testing.T) {
	c := one(csrs.Config{}, csrs.Request{Created: noon})
	pod := gc.Object{Namespace: "n", Name: "p", UID: "uid-p", ResourceVersion: "1"}
	c.Listing(noon, podType)
	c.Observe(noon, podType, pod, csrs.PodRequest{Created: noon})
	later := noon.Add(48 * time.Hour)
	if f, _ := c.Explain(gc.Coordinates{UID: "uid-p"}); f.Reason != csrs.Unread {
		t.Errorf("unlisted: %+v", f)
	}
	if next := c.Next(); !next.Equal(noon.Add(24*time.Hour + 1)) {
		t.Errorf("next at %v", next)
	}
	c.Synced(noon, podType)
	if next := c.Next(); !next.Equal(noon.Add(15*time.Minute + 1)) {
		t.Errorf("listed, next at %v", next)
	}
	c.Unreadable(noon, requestType)
	got := c.Ready(later, 10)
	if len(got) != 1 || got[0].Object != (gc.Coordinates{APIVersion: podType.APIVersion, Kind: podType.Kind, Resource: podType.Resource, Namespace: "n", Name: "p", UID: "uid-p"}) {
		t.Fatalf("%v", got)
	}
	c.Finished(later, got[0].ID, gc.Withheld)
	c.Synced(later, requestType)
	if got := c.Ready(later, 10); len(got) != 1 || got[0].Object.Name != "r" {
		t.Errorf("%v", got)
	}
	c.Release(later)
	if got := c.Ready(later, 10); len(got) != 1 || got[0].Object.Name != "p" || c.Len() != 2 {
		t.Errorf("released: %v", got)
	}
	c.Forget(later, podType, pod)
	if c.Len() != 1 {
		t.Errorf("%d are left", c.Len())
	}
}

// TestNoFields: an object without what was wanted of it is kept.
func TestNoFields(t *testing.T) {
	c := csrs.New(csrs.Config{})
	for _, of := range []gc.Type{requestType, podType} {
		c.Observe(noon, of, gc.Object{UID: of.Kind, ResourceVersion: "1"}, nil)
		c.Synced(noon, of)
		if f, known := c.Explain(gc.Coordinates{UID: of.Kind}); !known || f.Reason != csrs.TimeMissing || !c.Next().IsZero() {
			t.Errorf("%s: %+v", of.Kind, f)
		}
	}
}

const many = 5_000

// fill gives a collector of many requests, as the kubelets make them, and the live heap
// it takes.
func fill(signers int) (*csrs.Collector, float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := csrs.New(csrs.Config{})
	c.Listing(noon, requestType)
	for i := range many {
		o := object(fmt.Sprintf("csr-%05x", i), fmt.Sprint(1000000+i))
		o.UID = fmt.Sprintf("%08x-89ab-4cde-8f01-%012x", i*2654435761&0xffffffff, i)
		at := noon.Add(time.Duration(i) * time.Second)
		c.Observe(noon, requestType, o, csrs.Request{
			Signer: fmt.Sprint("kubernetes.io/kubelet-serving-", i%signers), Created: at, Handled: true, Approved: since(at), Issued: true, NotAfter: at.AddDate(1, 0, 0),
		})
	}
	c.Synced(noon, requestType)
	runtime.GC()
	runtime.ReadMemStats(&after)
	return c, float64(after.HeapAlloc-before.HeapAlloc) / many
}

func TestBytesPerObject(t *testing.T) {
	c, bytes := fill(3)
	if t.Logf("%.0f bytes per request", bytes); bytes > 300 {
		t.Errorf("%.0f bytes per request, at most 300", bytes)
	}
	runtime.KeepAlive(c)
}

// TestSignersAreForgotten: anybody may invent signers; none is kept for longer than its
// requests.
func TestSignersAreForgotten(t *testing.T) {
	var before, after runtime.MemStats
	c, _ := fill(many)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for round := range 4 {
		for i := range many {
			o := object(fmt.Sprint(round, "-", i), "1")
			c.Observe(noon, requestType, o, csrs.Request{Signer: o.UID, Created: noon})
			c.Forget(noon, requestType, o)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes more", grown)
	}
	runtime.KeepAlive(c)
}

func BenchmarkCollect(b *testing.B) {
	for b.Loop() {
		c, bytes := fill(3)
		now, went := noon.AddDate(2, 0, 0), 0
		for _, a := range c.Ready(now, many) {
			c.Finished(now, a.ID, gc.Done)
			c.Forget(now, requestType, gc.Object{UID: a.Object.UID})
			went++
		}
		if went != many || c.Len() != 0 {
			b.Fatalf("%d of %d went", went, many)
		}
		b.ReportMetric(bytes, "heap-B/object")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/object")
}
