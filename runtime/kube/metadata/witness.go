package metadata

import (
	"context"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Witness is an object that this process writes every few seconds, and nobody else in
// the same way: its Lease. As long as it is there as it was written last, etcd has the
// history up to that version. One that was restored from an older backup has not.
type Witness interface {
	// Check reads it live.
	Check(ctx context.Context) (LeaseCheck, error)
}

// LeaseCheck is how a Witness was found.
type LeaseCheck struct {
	Same    bool   // it is there as it was written last
	Version uint64 // that etcd has come to
}

// Trust has the followers rest on a witness: after an absence of the API server those
// types resume that were reported no further than its last write before. Its writes are reported
// by Wrote and NotWritten. Without a witness every type is listed.
//
// An API server accepts a watch from a version of the future without an error, and stays
// silent until its etcd has come there. An etcd that was restored while nobody looked may
// have gone on beyond all versions that were seen. So after a watch broke, and was not
// ended in time, the witness is looked at, once for all types:
//
//   - The API server was there all the time (a watch or a renewal was heard within two
//     seconds): every watch is taken up.
//   - It was away: types that were reported no further than the last renewal before, and of
//     which no request has learned anything since, are taken up; the others are listed.
//   - The Lease is not there as it was written, or there is no election: all are listed.
//
// Types in another etcd are asked for a version of their own, in the places of lists, and
// listed after every absence: those of other API servers, and those whose list does not
// lie between two renewals. Listing says up to which version everything had been reported. An object
// in the list that is as old, and was not reported so, is for the sink to find
// (policy/cascade: Contradicts). Lists after an absence begin within two seconds, sixteen
// at a time; watches are opened eight at a time, which is how many connections are made.
func (c *Client) Trust(w Witness) {
	c.sights.mu <- struct{}{}
	defer func() { <-c.sights.mu }()
	c.sights.witness = w
}

// Wrote notes a write of the witness that was acknowledged just now: its
// resourceVersion, and when it was begun. follows says that what was there until then
// was the one before. late says that more time has passed between them than should have.
func (c *Client) Wrote(version uint64, begun time.Time, follows, late bool) {
	c.continuity.wrote(written{version, begun, time.Now()}, follows, late)
}

// NotWritten notes a write of the witness that got no answer.
func (c *Client) NotWritten() { c.continuity.notWritten(time.Now()) }

// sights are looks at the witness, one for all followers that ask.
type sights struct {
	mu      chan struct{} // held over a look, and guards what follows
	witness Witness
	begun   time.Time // of the last look
	LeaseCheck
	err   error
	ended time.Time
}

// look at the witness, or take a look that was begun after a moment. ok is false if there
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
		l.begun = time.Time{} // whoever comes next looks himself
		return s, true, context.Cause(ctx)
	}
	if l.err != nil {
		l.err = &fault.Answer{Fault: fault.Fault{Op: "read the lease", Kind: ErrUnavailable, Cause: l.err, Hint: fault.Hint(l.err)}}
		return s, true, l.err
	}
	c.continuity.looked(l.ended, l.Same)
	return l.LeaseCheck, true, nil
}

// resume says whether the watch may go on from where it was, after a stream broke or
// the API server was away.
//
// An API server takes a watch from a version of the future without a word, and stays
// silent until its etcd has come there: so it must be known to have come. And it must be
// the history that was reported. One look at the witness answers for all types in its etcd.
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
		return errEnded // another absence came between: look again
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

// atHome says whether the type is known to be in the etcd of the witness.
func (f *Follower) atHome() bool {
	return !f.t.Aggregated && f.highest > 0 && f.lists > 0 && f.home.Load() == f.lists
}

// settle finds out whether it is, of a list that was just read: its version lies between
// the witness's writes before and after. Other etcds (--etcd-servers-overrides) count
// for themselves.
func (f *Follower) settle(version string) {
	f.lists++
	if v, ok := number64(version); ok && !f.t.Aggregated {
		n := f.lists
		f.c.continuity.listed(f.floor, v, func() { f.home.Store(n) })
	}
}

// inAllVersions is a type without its version.
func inAllVersions(apiVersion, resource string) schema.GroupResource {
	return schema.GroupResource{Group: gc.GroupOf(apiVersion), Resource: resource}
}
