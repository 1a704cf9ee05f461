package metadata

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"github.com/ebb-agent/ebb/runtime/wait"
)

// Sink takes what was reported, in order. The batch is its own to keep, strings and
// slices included. While it does not return, nothing more is read. An error ends
// [Follower.Run] and is returned by it.
//
// Strings of one batch share their memory, so keep copies of few (policy/cascade copies
// all that it keeps: names are cloned, UIDs packed, the rest interned by copy).
type Sink = func(ctx context.Context, batch []Event) error

// Follower lists one type and watches it. Listing comes before the objects of a
// list and Synced after them; then Observed and Deleted as they happen. After
// Unreadable either comes a list, or Synced without one: then nothing was missed.
// Before a list's Synced, the same may be reported twice, and as it was before.
//
// This is the order of what it reports:
//
//	Listing  Observed…  Synced  (Observed | Deleted | Progress)…
//	Unreadable  Synced           the watch went on without a gap
//	Unreadable  Listing …        it could not, or nobody knows whether it may
//	Away …                       the API server was away for 2 s; then as above
//	WentBack  Listing …          resourceVersions went backwards: etcd was restored;
//	                             all other types need Relist
//
// An end of a watch that is taken up at the first attempt is not reported.
type Follower struct {
	c       *Client
	t       gc.Type
	path    string
	pathErr error
	query   url.Values // of lists: what is selected
	sink    Sink

	// turn is held by whoever calls sink. It guards reported.
	turn     chan struct{}
	reported progress // handed on

	home atomic.Uint64 // the list that showed that the type is in the witness's etcd

	again  atomic.Bool // Relist was called
	wake   chan struct{}
	cancel atomic.Pointer[context.CancelCauseFunc] // of the attempt at hand

	// Of the goroutine of Run alone.
	asked    time.Time // when the list was asked for that comes, or came last
	version  string    // to watch from; empty: list first
	highest  uint64    // resourceVersion of the type's own that was ever seen
	doubtful bool      // the last stream ended otherwise than in time
	silent   bool      // because nothing was heard
	broke    time.Time // when the last stream ended
	epoch    uint64    // of continuity, when the last stream began
	tried    uint64    // the one in which the attempt at hand began
	checked  uint64    // the one for which it was found out that the watch may go on
	resumed  bool      // the last stream was the first after an absence
	lists    uint64    // that were read
	floor    uint64    // the witness's last version before the last list
	paged    bool      // the server does not stream lists
	listed   int       // objects of the last list in pages
	whole    bool      // the next list is to have no pages
	failing  bool      // Unreadable was reported last
	dropped  bool      // a batch of the attempt at hand
	batch    []Event
	decoder  decoder
}

// Follow prepares to follow a type; nothing happens before Run. The path is the
// type's own: it must be one that [Client.Discover] returned, or the first Run
// says what is wrong with it. With fields, whole objects are read instead of their
// metadata, which the server must have in protobuf.
func (c *Client) Follow(t gc.Type, fields Fields, sink Sink) *Follower {
	f := &Follower{c: c, t: t, sink: sink, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	f.decoder.kind, f.decoder.fields = t.Kind, fields
	f.reported.changed = make(chan struct{})
	f.path, f.pathErr = pathOf(t.APIVersion, t.Resource)
	return f
}

// Relist has the type listed again, from the beginning: etcd was restored.
func (f *Follower) Relist() {
	f.again.Store(true)
	f.interrupt(errRelist)
}

// interrupt ends the attempt at hand, or the wait for the next.
func (f *Follower) interrupt(why error) {
	if cancel := f.cancel.Load(); cancel != nil {
		(*cancel)(why)
	}
	f.goOn()
}

// goOn ends the wait for the next attempt.
func (f *Follower) goOn() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

var errRelist = errors.New("another list was asked for")

// Run follows the type until ctx ends, and returns nil then.
func (f *Follower) Run(ctx context.Context) error {
	if f.pathErr != nil {
		return f.fault(f.pathErr)
	}
	defer f.c.continuity.join(f)()
	backoff, quick := wait.Backoff{Min: f.c.timing.minPause, Max: f.c.timing.maxPause}, 0
	for {
		began := time.Now()
		f.tried = f.c.continuity.current()
		again, err := f.attempt(ctx)
		var own *sinkError
		switch {
		case ctx.Err() != nil:
			return nil
		case again:
			continue
		case errors.As(err, &own):
			return own.error
		}
		f.missed(err)
		if errors.Is(err, errAway) || f.resumed && errors.Is(err, errExpired) {
			// Many types are listed now: not all at once.
			f.version = ""
			if !f.wait(ctx, rand.N(f.c.timing.spread+1)) {
				return nil
			}
			continue
		}
		if time.Since(began) >= f.c.timing.settled {
			backoff.Reset()
			quick = 0
		}
		if f.quiet(err) {
			// A server that ends every watch at once must not be asked in a circle.
			if quick++; quick <= 3 {
				continue
			}
			if f.t.Aggregated {
				// It can be read, only late: each end is taken up without a gap, or listed.
				if !f.wait(ctx, wait.Jitter(backoff.Next())) {
					return nil
				}
				continue
			}
		}
		if err := f.unreadable(ctx, err); err != nil {
			if ctx.Err() == nil && errors.As(err, &own) {
				return own.error
			}
			return nil // it was only asked to end
		}
		if !f.wait(ctx, max(wait.Jitter(backoff.Next()), fault.RetryAfter(err))) {
			return nil
		}
	}
}

// attempt lists or watches until that ends. again says that Relist ended it.
func (f *Follower) attempt(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.cancel.Store(&cancel)
	f.dropped, f.silent = false, false
	if f.again.Swap(false) { // whoever comes later cancels
		f.version = ""
	}
	err = f.listOrWatch(ctx)
	f.c.continuity.ended(f)
	switch context.Cause(ctx) {
	case errRelist:
		f.again.Store(true)
		return true, nil
	case errAbsence:
		f.broke, f.doubtful, f.silent = time.Now(), true, false
		if f.dropped {
			f.version = "" // what was read was not handed on: nobody would report it again
		}
		return true, nil
	}
	return false, err
}

// errEnded is a stream that was begun, and ended without saying anything that
// cannot be followed.
var errEnded = errors.New("the watch ended")

// quiet says whether an end is nothing to tell of, and prepares what comes next.
func (f *Follower) quiet(err error) bool {
	var refusal *fault.Answer
	switch {
	case errors.Is(err, errEnded):
		return true
	case errors.Is(err, errExpired), errors.Is(err, errWentBack):
		f.version = ""
		return true
	case errors.Is(err, errUnstreamed):
		f.paged = true
		return true
	case errors.As(err, &refusal) && (refusal.Code/100 == 4 && refusal.Code != http.StatusTooManyRequests):
		// The type may have gone and come again, or the right to it: whatever
		// comes then has a history of its own.
		f.version = ""
	case errors.Is(err, ErrMalformed):
		f.version = ""
	}
	return false
}

// listOrWatch never returns without an error.
func (f *Follower) listOrWatch(ctx context.Context) error {
	if f.doubtful && f.t.Aggregated && f.version != "" {
		if err := f.sameAsBefore(ctx); err != nil {
			return err
		}
	}
	switch {
	case f.version == "" && (f.paged || f.t.Aggregated):
		if err := f.pages(ctx); err != nil {
			f.paged = f.whole // if not, perhaps that was it
			return err
		}
	case f.version == "":
		return f.stream(ctx, true)
	}
	if f.doubtful && !f.t.Aggregated {
		if err := f.resume(ctx); err != nil {
			return err
		}
	}
	return f.stream(ctx, false)
}

// probe asks for the type's own version, about which the witness says nothing.
func (f *Follower) probe(ctx context.Context) error {
	if f.highest == 0 {
		return nil // no numbers: nothing to compare
	}
	place := f.c.place(ctx, f.c.lists)
	defer place.release()
	p, err := f.list(ctx, "", 1, func(item) error { return nil })
	if err != nil {
		return err
	}
	return f.compare(ctx, p.version)
}

var errWentBack = errors.New("resourceVersions went backwards")

// compare takes the version of a consistent list. One that is lower than what
// was seen of this type before says that etcd was restored.
func (f *Follower) compare(ctx context.Context, version string) error {
	v, ok := number64(version)
	ok = ok && !f.t.Aggregated
	if ok && v < f.highest {
		f.batch = append(f.batch, Event{Kind: WentBack})
		err := f.flush(ctx)
		if err == nil {
			f.highest = v
		}
		return errors.Join(errWentBack, err)
	}
	if ok {
		f.highest = v
	}
	return nil
}

// number64 reads a resourceVersion that is a number, as on Kubernetes' own
// storage; others cannot be compared.
func number64(s string) (uint64, bool) {
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil
}

// away notes in which epoch a list or a watch begins, and tells if the API server was
// away since the one before.
func (f *Follower) away(epoch uint64) (e []Event) {
	if f.resumed = epoch != f.epoch && f.lists > 0; f.resumed {
		e = []Event{{Kind: Away, Absences: epoch}}
	}
	f.epoch, f.checked = epoch, epoch
	f.c.continuity.begun(f, epoch)
	return e
}

// listing begins a list, and says up to which version all had been reported before: nobody but
// the goroutine of Run changes that.
func (f *Follower) listing() Event {
	e := Event{Kind: Listing}
	if f.reported.passed > 0 {
		e.ResourceVersion = strconv.FormatUint(f.reported.passed, 10)
	}
	return e
}

// hearDate takes the Date of an answer, unless another API server may have made it.
func (f *Follower) hearDate(sent time.Time, resp *http.Response) {
	if !f.t.Aggregated {
		f.c.clock.hear(sent, resp)
	}
}

func (f *Follower) observed(it item) Event {
	it.APIVersion, it.Kind = f.t.APIVersion, f.t.Kind
	if err := it.unsound(); err != nil {
		return Event{Kind: Skipped, Object: it.Object, Err: f.fault(err)}
	}
	return Event{Kind: Observed, Object: it.Object, Fields: it.fields, Generation: it.generation}
}

// synced ends a list.
func (f *Follower) synced(ctx context.Context, version string) error {
	if err := f.compare(ctx, version); err != nil {
		return err
	}
	f.settle(version)
	f.batch = append(f.batch, Event{Kind: Synced, ResourceVersion: version})
	f.version, f.failing, f.doubtful = version, false, false
	return f.flush(ctx)
}

// unreadable tells that the type is; err is only that of a sink.
func (f *Follower) unreadable(ctx context.Context, why error) error {
	f.batch = append(f.batch[:0], Event{Kind: Unreadable, Err: f.fault(why)})
	f.failing = true
	if err := f.flush(ctx); err != nil {
		return err
	}
	f.c.continuity.settled(f, f.tried)
	return nil
}

func (f *Follower) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-f.wake:
	}
	return true
}
