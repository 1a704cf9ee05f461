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

// Sink receives what was reported, in order. It may keep the batch, with its strings and slices.
// Until it returns, nothing more is read. An error ends [Follower.Run], which returns it.
//
// Strings of one batch share their memory, so a sink that keeps few must copy them
// (policy/cascade copies all that it keeps: names are cloned, UIDs packed, the rest interned by
// copy).
type Sink = func(ctx context.Context, batch []Event) error

// Follower lists one type and watches it. It reports Listing before the objects of a list and
// Synced after them; then Observed and Deleted as they happen. After Unreadable comes a list, or
// Synced without a list: then nothing was missed. Before a list's Synced, an object may be
// reported twice, and in an older state.
//
// This is the order of the reports:
//
//	Listing  Observed…  Synced  (Observed | Deleted | Progress)…
//	Unreadable  Synced           the watch resumed without a gap
//	Unreadable  Listing …        it could not resume, or may not be able to
//	Away …                       the API server was away for 2 s; then as above
//	WentBack  Listing …          resourceVersions went backwards: etcd was restored;
//	                             all other types must be listed again
//
// A watch that ends and resumes at the first attempt is not reported.
type Follower struct {
	c       *Client
	t       gc.Type
	path    string
	pathErr error
	query   url.Values // of lists: the selection
	sink    Sink

	// turn is a lock, held by the goroutine that calls sink. It guards reported.
	turn     chan struct{}
	reported progress // what the sink has received

	home atomic.Uint64 // number of the list that showed that the type is in the witness's etcd

	again  atomic.Bool // Relist was called
	wake   chan struct{}
	cancel atomic.Pointer[context.CancelCauseFunc] // of the current attempt

	// Owned by the goroutine of Run.
	asked    time.Time // when the current or the last list was requested
	version  string    // to watch from; empty: list first
	highest  uint64    // highest resourceVersion of the type ever seen
	doubtful bool      // the last stream ended before its time
	silent   bool      // because the server was silent
	broke    time.Time // when the last stream ended
	epoch    uint64    // of continuity, when the last stream began
	tried    uint64    // in which the current attempt began
	checked  uint64    // for which the watch was found to be resumable
	resumed  bool      // the last stream was the first after an absence
	lists    uint64    // number of lists that were read
	floor    uint64    // the witness's last version before the last list
	paged    bool      // the server does not stream lists
	listed   int       // objects of the last list in pages
	whole    bool      // the next list is read in one answer
	failing  bool      // Unreadable was reported last
	dropped  bool      // a batch of the current attempt did not reach the sink
	batch    []Event
	decoder  decoder
}

// Follow returns a Follower of a type. Nothing happens before Run. The type must be one that
// [Client.Discover] returned; if its path is invalid, Run returns an error. With fields, whole
// objects are read instead of their metadata, and the server must have them in protobuf.
func (c *Client) Follow(t gc.Type, fields Fields, sink Sink) *Follower {
	f := &Follower{c: c, t: t, sink: sink, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	f.decoder.kind, f.decoder.fields = t.Kind, fields
	f.reported.changed = make(chan struct{})
	f.path, f.pathErr = pathOf(t.APIVersion, t.Resource)
	return f
}

// Relist makes Run list the type again from the beginning: etcd was restored, or the watch
// proves nothing.
func (f *Follower) Relist() {
	f.again.Store(true)
	f.interrupt(errRelist)
}

// interrupt ends the current attempt, or the wait for the next.
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
			// Many types are listed now: spread the lists.
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
			// Do not retry in a tight loop if the server ends every watch at once.
			if quick++; quick <= 3 {
				continue
			}
			if f.t.Aggregated {
				// The type can be read, only late: each watch resumes without a gap, or the type
				// is listed.
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
			return nil // ctx has ended
		}
		if !f.wait(ctx, max(wait.Jitter(backoff.Next()), fault.RetryAfter(err))) {
			return nil
		}
	}
}

// attempt lists or watches until that ends. again reports that Relist or an absence ended it.
func (f *Follower) attempt(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.cancel.Store(&cancel)
	f.dropped, f.silent = false, false
	if f.again.Swap(false) { // a later Relist cancels ctx
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
			f.version = "" // what was read did not reach the sink, and would not be reported again
		}
		return true, nil
	}
	return false, err
}

// errEnded: a stream began, and ended without an error of the server or malformed data.
var errEnded = errors.New("the watch ended")

// quiet reports whether an end needs no report, and prepares the next attempt.
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
		// The type, or the right to read it, may be gone and come back later. It has a new
		// history then.
		f.version = ""
	case errors.Is(err, ErrMalformed):
		f.version = ""
	}
	return false
}

// listOrWatch lists or watches until that ends. It always returns an error.
func (f *Follower) listOrWatch(ctx context.Context) error {
	if f.doubtful && f.t.Aggregated && f.version != "" {
		if err := f.sameAsBefore(ctx); err != nil {
			return err
		}
	}
	switch {
	case f.version == "" && (f.paged || f.t.Aggregated):
		if err := f.pages(ctx); err != nil {
			f.paged = f.whole // otherwise try a streamed list again: the pages may be the cause
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

// probe requests the type's own version, for a type that the witness proves nothing about.
func (f *Follower) probe(ctx context.Context) error {
	if f.highest == 0 {
		return nil // versions are no numbers: nothing to compare
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

// compare takes the version of a consistent list. If it is lower than a version seen of this type
// before, etcd was restored: compare reports WentBack, and returns errWentBack.
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

// number64 parses a resourceVersion that is a number, as in Kubernetes' own storage. Other
// versions cannot be compared.
func number64(s string) (uint64, bool) {
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil
}

// away notes in which epoch a list or a watch begins. It returns Away if the API server was away
// since the one before.
func (f *Follower) away(epoch uint64) (e []Event) {
	if f.resumed = epoch != f.epoch && f.lists > 0; f.resumed {
		e = []Event{{Kind: Away, Absences: epoch}}
	}
	f.epoch, f.checked = epoch, epoch
	f.c.continuity.begun(f, epoch)
	return e
}

// listing returns the event that begins a list. It has the version up to which everything was
// reported before. Only the goroutine of Run changes that version, so no lock is needed.
func (f *Follower) listing() Event {
	e := Event{Kind: Listing}
	if f.reported.passed > 0 {
		e.ResourceVersion = strconv.FormatUint(f.reported.passed, 10)
	}
	return e
}

// hearDate takes the Date of an answer as a sample of the clock, unless another API server may
// have made it.
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

// synced reports the end of a list of this version.
func (f *Follower) synced(ctx context.Context, version string) error {
	if err := f.compare(ctx, version); err != nil {
		return err
	}
	f.settle(version)
	f.batch = append(f.batch, Event{Kind: Synced, ResourceVersion: version})
	f.version, f.failing, f.doubtful = version, false, false
	return f.flush(ctx)
}

// unreadable reports that the type is unreadable. It returns an error of the sink or of ctx.
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
