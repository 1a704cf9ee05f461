package metadata

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// progress is what was handed on. Whoever holds the follower's turn may look.
type progress struct {
	listedFrom time.Time     // when the last list that was complete was asked for
	live       bool          // the stream reports what happens, as far as is known
	listing    bool          // a list has begun, and not ended
	passed     uint64        // the stream has reported everything up to this; 0: unknown
	changed    chan struct{} // closed when something was handed on
	awaited    bool          // somebody waits for changed
}

// sinkError is an error of the sink, which is not the follower's to deal with.
type sinkError struct{ error }

func (e *sinkError) Unwrap() error { return e.error }

// flush hands on what is together. What a batch holds is the sink's from now on.
func (f *Follower) flush(ctx context.Context) error {
	if len(f.batch) == 0 {
		return nil
	}
	batch := f.batch
	f.batch = nil
	if len(batch) == maxBatch {
		f.batch = make([]Event, 0, maxBatch) // the next is probably full, too
	}
	return f.deliver(ctx, batch)
}

func (f *Follower) deliver(ctx context.Context, batch []Event) error {
	err := f.lock(ctx)
	if err == nil {
		defer f.unlock()
		err = f.hand(ctx, batch)
	}
	f.dropped = f.dropped || err != nil
	return err
}

func (f *Follower) lock(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *Follower) unlock() { <-f.turn }

// hand is deliver for who has the turn; only the goroutine of Run calls it.
func (f *Follower) hand(ctx context.Context, batch []Event) error {
	if err := f.sink(ctx, batch); err != nil {
		return &sinkError{err}
	}
	for i := range batch {
		f.reported.note(&batch[i], f.asked)
	}
	if f.reported.live {
		f.c.continuity.settled(f, f.epoch)
	}
	if f.reported.awaited {
		close(f.reported.changed)
		f.reported.changed, f.reported.awaited = make(chan struct{}), false
	}
	return nil
}

func (p *progress) note(e *Event, asked time.Time) {
	switch e.Kind {
	case Listing:
		p.listing, p.live = true, false
	case Synced:
		if p.listing {
			p.listedFrom = asked
		}
		p.listing, p.live = false, true
		p.pass(e.ResourceVersion)
	case Unreadable:
		p.listing, p.live = false, false
	case WentBack:
		p.listing, p.live, p.passed, p.listedFrom = false, false, 0, time.Time{}
	case Progress:
		p.pass(e.ResourceVersion)
	case Observed, Deleted:
		if !p.listing {
			p.pass(e.Object.ResourceVersion)
		}
	}
}

func (p *progress) pass(version string) {
	if v, ok := number64(version); ok {
		p.passed = max(p.passed, v)
	}
}

// fault names the type in an error, and says what a person can do about it.
func (f *Follower) fault(err error) error {
	var known *typeError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &typeError{f.t.Resource + " (" + f.t.APIVersion + ")", err}
}

// typeError is an error about a type.
type typeError struct {
	name string
	err  error
}

func (e *typeError) Error() string {
	s := fmt.Sprintf("follow %s: %v", fault.Clean(e.name), e.err)
	if errors.Is(e.err, ErrForbidden) {
		s += " (allow that identity to get, list and watch it, or exclude the type)"
	}
	return s
}

func (e *typeError) Unwrap() error { return e.err }

// CatchUp returns once everything that had happened to the type when it was called has
// been passed to the sink. Run must run meanwhile.
//
// A list of one object shows the newest version. The proof is that the stream has reported
// everything up to it, which a bookmark says within a minute on a type on which nothing
// happens, or a list that was asked for since. Versions of other API servers prove
// nothing: their types are listed.
func (f *Follower) CatchUp(ctx context.Context) error {
	if f.pathErr != nil {
		return f.fault(f.pathErr)
	}
	began := time.Now()
	p, err := f.list(ctx, "", 1, func(item) error { return nil })
	if err != nil {
		return err
	}
	target, comparable := number64(p.version)
	if comparable = comparable && !f.t.Aggregated; !comparable {
		f.Relist()
	}
	for {
		if err := f.lock(ctx); err != nil {
			return f.fault(err)
		}
		reached := f.reported.listedFrom.After(began) || comparable && f.reported.live && f.reported.passed >= target
		changed := f.reported.changed
		f.reported.awaited = true
		f.unlock()
		if reached {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return f.fault(context.Cause(ctx))
		}
	}
}

// EventKind says what an Event reports.
type EventKind uint8

// What following a type reports, in order. See [Follower] for the order.
const (
	Listing    EventKind = iota + 1 // a list begins: what it does not name until Synced is missing
	Observed                        // Object is there, like this
	Synced                          // the list is complete; or, without Listing before it, the watch that was Unreadable goes on without a gap
	Deleted                         // Object went: a DELETED event
	Progress                        // a bookmark: everything up to ResourceVersion was reported
	Unreadable                      // the type cannot be listed or watched at present, because of Err
	Away                            // the API server was away for long: proof of absence from before may be of another history
	WentBack                        // resourceVersions went backwards: etcd was restored. A list follows
	Skipped                         // Object cannot be followed, because of Err; only of other API servers
)

// Event is one thing that following a type reports.
type Event struct {
	Kind            EventKind
	Object          gc.Object // of Observed and Deleted
	Fields          any       // of Object: what [Fields] made of it
	Generation      int64     // of Object; 0: it has none
	ResourceVersion string    // of Synced and Progress; of Listing that up to which everything was reported before, if it is known
	Absences        uint64    // of Away: how many there were by now
	Err             error     // of Unreadable and Skipped
}

// Fields picks from an object what is not in its metadata. It gets the protobuf message of
// the whole object, which is valid during the call only. If it cannot, the event has none:
// its metadata holds all the same.
type Fields func(message []byte) (any, error)

// maxBatch is how many events a sink is given at most.
const maxBatch = 512
