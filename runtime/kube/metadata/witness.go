package metadata

import (
	"context"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Witness is an object that this process writes every few seconds, in a way that no other process
// does: its Lease. As long as it is unchanged since the last write, etcd has the history up to
// that version. An etcd that was restored from an older backup does not.
type Witness interface {
	// Check reads the object live.
	Check(ctx context.Context) (LeaseCheck, error)
}

// LeaseCheck is the result of a Check.
type LeaseCheck struct {
	Same    bool   // it is unchanged since the last write
	Version uint64 // that etcd has reached
}

// Trust sets the witness that the followers rely on. After an absence of the API server, a type
// resumes if it was reported no further than the witness's last write before the absence. Wrote
// and NotWritten report those writes. Without a witness every type is listed.
//
// An API server accepts a watch from a future version without an error, and stays silent until
// its etcd reaches that version. An etcd that was restored unnoticed may have advanced beyond all
// versions that were seen. So after a watch broke before its time, the witness is read, once for
// all types:
//
//   - The API server was there all the time (a watch or a renewal got data within two seconds):
//     every watch resumes.
//   - It was away: a type resumes if it was reported no further than the last renewal before, and
//     if no request has shown an object of it since. The others are listed.
//   - The Lease is not there as it was written, or there is no election: all types are listed.
//
// Types in another etcd are those of other API servers, and those whose list does not lie between
// two renewals. They are asked for a version of their own, in the slots of lists, and listed
// after every absence. Listing has the version up to which everything had been reported. The list
// may have an object that is no newer but was not reported in that state. The sink must find it
// (policy/cascade: Contradicts).
//
// Lists after an absence begin within two seconds, sixteen at a time. Watches are opened eight at
// a time, and make as many connections.
func (c *Client) Trust(w Witness) {
	c.sights.mu <- struct{}{}
	defer func() { <-c.sights.mu }()
	c.sights.witness = w
}

// Wrote notes a write of the witness that was just acknowledged: its resourceVersion, and when it
// began. follows is whether the write before was still there until then. late is whether more time
// has passed between the two than should have.
func (c *Client) Wrote(version uint64, begun time.Time, follows, late bool) {
	c.continuity.wrote(written{version, begun, time.Now()}, follows, late)
}

// NotWritten notes a write of the witness that got no answer.
func (c *Client) NotWritten() { c.continuity.notWritten(time.Now()) }

// sights has the last look at the witness, for all followers that need one.
type sights struct {
	mu      chan struct{} // held during a look; guards the fields below
	witness Witness
	begun   time.Time // of the last look
	LeaseCheck
	err   error
	ended time.Time
}

// look reads the witness, or takes a look that began after the given moment. ok is false if there
// is no witness.
func (c *Client) look(ctx context.Context, after time.Time) (s LeaseCheck, ok bool, err error) {
	l := &c.sights
	select {
	case l.mu <- struct{}{}:
		defer func() { <-l.mu }()
	case <-ctx.Done():
		return s, true, context.Cause(ctx)
	}
	if l.witness == nil {
		return s, false, nil
	}
	if l.begun.After(after) && (l.err == nil || time.Since(l.ended) < c.timing.minPause) {
		return l.LeaseCheck, true, l.err
	}
	l.begun = time.Now()
	asking, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	l.LeaseCheck, l.err = l.witness.Check(asking)
	if l.ended = time.Now(); ctx.Err() != nil {
		l.begun = time.Time{} // the next caller reads the witness itself
		return s, true, context.Cause(ctx)
	}
	if l.err != nil {
		l.err = &fault.Answer{Fault: fault.Fault{Op: "read the lease", Kind: ErrUnavailable, Cause: l.err, Hint: fault.Hint(l.err)}}
		return s, true, l.err
	}
	c.continuity.looked(l.ended, l.Same)
	return l.LeaseCheck, true, nil
}

// resume returns nil if the watch may continue from its version, after a stream broke or the API
// server was away. It returns errAway if the type must be listed, and errEnded if resume must be
// tried again.
//
// An API server accepts a watch from a future version, and stays silent until its etcd reaches
// it. So the etcd must be known to have reached that version, and its history must be the one
// that was reported. One look at the witness answers both for all types in its etcd.
func (f *Follower) resume(ctx context.Context) error {
	var come uint64
	if f.atHome() {
		s, ok, err := f.c.look(ctx, f.broke)
		if err != nil {
			return err
		}
		if ok {
			come = s.Version
		}
	}
	epoch, standing := f.c.continuity.stands(inAllVersions(f.t.APIVersion, f.t.Resource), f.epoch, f.highest)
	switch {
	case standing == fallen, come == 0 && (epoch != f.epoch || f.c.continuity.away(time.Now())):
		return errAway
	case standing == unsure:
		return errEnded // another absence came in between: look again
	}
	if f.highest > come {
		if err := f.probe(ctx); err != nil {
			return err
		}
		switch ended := f.c.continuity.hear(time.Now()) != epoch; {
		case ended && come == 0:
			return errAway
		case ended:
			return errEnded
		}
	}
	f.checked = epoch
	return nil
}

// atHome reports whether the type is known to be in the etcd of the witness.
func (f *Follower) atHome() bool {
	return !f.t.Aggregated && f.highest > 0 && f.lists > 0 && f.home.Load() == f.lists
}

// settle counts a list that was just read, and finds out whether the type is in the etcd of the
// witness. It is if the list's version lies between the witness's writes before and after. Other
// etcds (--etcd-servers-overrides) count versions for themselves.
func (f *Follower) settle(version string) {
	f.lists++
	if v, ok := number64(version); ok && !f.t.Aggregated {
		n := f.lists
		f.c.continuity.listed(f.floor, v, func() { f.home.Store(n) })
	}
}

// inAllVersions returns a type without its version.
func inAllVersions(apiVersion, resource string) schema.GroupResource {
	return schema.GroupResource{Group: gc.GroupOf(apiVersion), Resource: resource}
}
