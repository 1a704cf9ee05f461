package csrs_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/csrs"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/gc/gctest"
)

var (
	requestType = gc.Type{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest", Resource: "certificatesigningrequests"}
	podType     = gc.Type{APIVersion: "certificates.k8s.io/v1beta1", Kind: "PodCertificateRequest", Resource: "podcertificaterequests", Namespaced: true}
)

// pick a number below n. Ranges of rapid prefer what is small.
func pick(t *rapid.T, n int) (v int) {
	for m := 1; m < n; m *= 2 {
		if v *= 2; rapid.Bool().Draw(t, "bit") {
			v++
		}
	}
	return v % n
}

// times are a configuration, in words of the oracle's own. Zero is as for all, or the
// default.
type times struct{ pending, examplePending, exampleIssued, pod time.Duration }

func (s times) config() csrs.Config {
	return csrs.Config{
		Patience: csrs.Patience{Pending: s.pending}, PodRequests: s.pod,
		Signers: []csrs.Signer{{Name: "example.com/*", Patience: csrs.Patience{Pending: s.examplePending, Issued: s.exampleIssued}}},
	}
}

func first(d ...time.Duration) time.Duration {
	for _, d := range d {
		if d > 0 {
			return d
		}
	}
	return 0
}

// rules are the moments after which each rule applies, for one who looks once an hour: is
// it older?
func (s times) rules(o gctest.Object) map[gc.Reason]time.Time {
	all := map[gc.Reason]time.Time{}
	add := func(since time.Time, d time.Duration, why gc.Reason) {
		if !since.IsZero() {
			all[why] = since.Add(d + 1)
		}
	}
	if p, is := o.Fields.(csrs.PodRequest); is {
		add(p.Created, first(s.pod, 15*time.Minute), "pod_request_old")
		return all
	}
	r := o.Fields.(csrs.Request)
	pending, issued := first(s.pending, 24*time.Hour), time.Hour
	if strings.HasPrefix(r.Signer, "example.com/") {
		pending, issued = first(s.examplePending, pending), first(s.exampleIssued, issued)
	}
	if !r.Handled {
		add(r.Created, pending, "pending")
	}
	add(r.Denied.Since, time.Hour, "denied")
	add(r.Failed.Since, time.Hour, "failed")
	switch {
	case r.Issued && r.NotAfter.IsZero():
		add(r.Approved.Since, issued, "issued_certificate_unreadable")
	case r.Issued:
		add(r.Approved.Since, issued, "issued")
		if r.Approved.Is {
			add(r.NotAfter, 0, "certificate_expired")
		}
	default:
		add(r.Approved.Since, 24*time.Hour, "approved_unissued")
	}
	return all
}

// oracle asks each rule by itself.
func (s times) oracle(o gctest.Object, current bool) (why gc.Reason, due time.Time) {
	all := s.rules(o)
	r, _ := o.Fields.(csrs.Request)
	switch {
	case o.Terminating:
		return "terminating", due
	case len(all) == 0 && r.Handled && !r.Approved.Is && !r.Denied.Is && !r.Failed.Is:
		return "conditions_unknown", due
	case len(all) == 0:
		return "time_missing", due
	case !current:
		return "type_not_read", due
	}
	for _, rule := range []gc.Reason{"issued", "issued_certificate_unreadable", "denied", "failed", "pending", "certificate_expired", "approved_unissued", "pod_request_old"} {
		if at, is := all[rule]; is && (due.IsZero() || at.Before(due)) {
			why, due = rule, at
		}
	}
	return why, due
}

// aRequest is any request, sensible or not.
func aRequest(t *rapid.T, now time.Time) csrs.Request {
	at := func() time.Time {
		if pick(t, 8) == 0 {
			return time.Time{}
		}
		return now.Truncate(time.Second).Add(time.Duration(pick(t, 2000)-1800) * time.Minute / 10)
	}
	r := csrs.Request{Signer: []string{"example.com/a", "example.com/b", "other.io/a"}[pick(t, 3)], Created: at()}
	for _, c := range []*csrs.Condition{&r.Approved, &r.Approved, &r.Denied, &r.Failed} {
		if pick(t, 4) == 0 {
			*c, r.Handled = csrs.Condition{Is: true, Since: at()}, true
		}
	}
	r.Handled = r.Handled || pick(t, 8) == 0
	if r.Issued = pick(t, 2) == 0; r.Issued {
		r.NotAfter = at()
	}
	return r
}

// TestHistories has random histories of a cluster judged from scratch at each step, for
// both types.
func TestHistories(t *testing.T) {
	for _, of := range []gc.Type{requestType, podType} {
		deleted := 0
		gctest.Histories(t, func(t *rapid.T) {
			var s times
			c := csrs.New(s.config())
			w := gctest.World{
				Collector: c, Name: "csrs", Namespaces: []string{"default", "ci-1", "ci-2"}, Type: of, Policy: gc.Background, Fatalf: t.Fatalf, Now: time.Unix(1e9, 0),
				Pick: func(n int) int { return pick(t, n) },
				Make: func(o *gctest.Object, now time.Time) {
					r := aRequest(t, now)
					if o.Fields = r; of == podType {
						o.Fields = csrs.PodRequest{Created: r.Created}
					}
					o.Terminating = o.Terminating || pick(t, 10) == 0
				},
				Configure: func(now time.Time) {
					some := []time.Duration{-time.Hour, 0, 10 * time.Minute, 300 * time.Hour}
					s = times{some[pick(t, 4)], some[pick(t, 4)], some[pick(t, 4)], some[pick(t, 4)]}
					c.Configure(now, s.config())
				},
				Oracle: func(o gctest.Object, _ time.Time, current bool) (gc.Reason, time.Time) { return s.oracle(o, current) },
			}
			for range 200 {
				w.Step()
			}
			deleted += w.Deleted
		})
		if t.Logf("%d %s were deleted", deleted, of.Resource); deleted == 0 {
			t.Errorf("no %s was ever deleted", of.Resource)
		}
	}
}
