package metadata

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// progress is what the sink has received. The holder of the follower's turn may read it.
type progress struct {
	listedFrom time.Time     // when the last complete list was requested
	live       bool          // the stream reports changes, as far as is known
	listing    bool          // a list has begun, and not ended
	passed     uint64        // version up to which everything was reported; 0: unknown
	changed    chan struct{} // closed when the sink has received events
	awaited    bool          // a CatchUp waits for changed
}

// sinkError is an error of the sink. The follower does not handle it: Run returns it.
type sinkError struct{ error }

func (e *sinkError) Unwrap() error { return e.error }

// flush passes the collected events to the sink, which owns the batch from then on.
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

// hand is deliver for a caller that has the turn. Only the goroutine of Run calls it.
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

// fault adds the type to an error.
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

// CatchUp returns once everything that had happened to the type when it was called has been
// passed to the sink. Run must be running.
//
// A list of one object shows the newest version. CatchUp waits until the stream has reported
// everything up to that version, or until a list that was requested later is complete. On an idle
// type a bookmark proves the former within a minute. Versions of other API servers prove nothing,
// so their types are listed.
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

// EventKind is what an Event reports.
type EventKind uint8

// Kinds of events. See [Follower] for their order.
const (
	Listing    EventKind = iota + 1 // a list begins: objects that it does not have until Synced are gone
	Observed                        // Object exists in this state
	Synced                          // the list is complete; without a Listing: the watch resumed, no gap
	Deleted                         // Object was deleted: a DELETED event
	Progress                        // a bookmark: everything up to ResourceVersion was reported
	Unreadable                      // the type cannot be listed or watched at present, because of Err
	Away                            // the API server was away: an older proof of absence may not hold
	WentBack                        // resourceVersions went backwards: etcd was restored. A list follows
	Skipped                         // Object cannot be followed, because of Err; only of other API servers
)

// Event is one report about a type.
type Event struct {
	Kind            EventKind
	Object          gc.Object // of Observed and Deleted
	Fields          any       // of Object: what [Fields] made of it
	Generation      int64     // of Object; 0: it has none
	ResourceVersion string    // of Synced and Progress; of Listing: all up to it was reported; empty: unknown
	Absences        uint64    // of Away: number of absences so far
	Err             error     // of Unreadable and Skipped
}

// Fields reads from an object what is not in its metadata. It gets the protobuf message of the
// whole object, which is valid during the call only. After an error the event has no Fields, but
// its metadata is valid.
type Fields func(message []byte) (any, error)

// maxBatch is the maximum number of events in a batch.
const maxBatch = 512
