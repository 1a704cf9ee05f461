package metadata

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/conn"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// errUnstreamed: the server does not support sendInitialEvents.
var errUnstreamed = errors.New("the server does not stream lists")

// stream watches from f.version or, if initial, from the current state, which the server sends
// first. It always ends with an error.
//
// A streamed list is a watch that begins with the current state (sendInitialEvents), whose end a
// bookmark marks. If the server refuses that, or never ends it, the list is read page by page. If
// etcd has forgotten the next page, the list is requested again in one answer. Types are listed
// sixteen at a time; a list that falls silent gives up its slot.
//
// A watch that is silent for 90 s (bookmarks come every minute) is restarted, and HTTP/2 pings
// notice its dead connection in 45. Up to 256 KiB of an unread stream are buffered.
func (f *Follower) stream(ctx context.Context, initial bool) error {
	connection, silence := conn.Listen(ctx, f.c.timeout)
	defer silence.End()
	s := &streaming{f: f, initial: initial, life: f.c.timing.watchLife + rand.N(f.c.timing.watchLife), silence: silence}
	silence.Hold() // waiting for a place is not the server's silence
	if initial {
		s.slot = f.c.place(ctx, f.c.lists)
		defer s.slot.release()
	} else {
		s.slot = f.c.place(ctx, f.c.opens)
	}
	silence.Heard(f.c.timeout)
	began := time.Now()
	err := s.run(ctx, connection)
	f.broke = time.Now()
	f.decoder.reset()
	f.doubtful, f.silent = true, s.lost || errors.Is(context.Cause(connection), conn.ErrSilent)
	if !errors.Is(err, errEnded) {
		return err
	}
	f.doubtful = time.Since(began) < s.life
	if s.initial && errors.Is(context.Cause(connection), conn.ErrSilent) {
		return errUnstreamed // or the server never ends the list
	}
	if s.initial {
		return &fault.Answer{Fault: fault.Fault{Op: "GET " + f.path, Kind: ErrUnavailable, Text: "the list broke off"}}
	}
	return err
}

// streaming is one stream.
type streaming struct {
	f       *Follower
	initial bool // the end of the initial state has not come yet
	life    time.Duration
	lost    bool // pings found the connection dead
	silence *conn.Silence
	slot    *slot
}

func (s *streaming) query() string {
	q := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"},
		"timeoutSeconds": {strconv.Itoa(int(max(s.life.Seconds(), 1)))},
	}
	if s.initial {
		// Without a resourceVersion the list is of the newest state.
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", "NotOlderThan")
	} else if s.f.version != "" { // otherwise the list had none: see run
		q.Set("resourceVersion", s.f.version)
	}
	return q.Encode()
}

func (s *streaming) run(ctx, connection context.Context) error {
	f := s.f
	f.batch = nil
	if s.initial {
		f.asked, f.floor = time.Now(), f.c.continuity.floor()
	}
	q := request{method: http.MethodGet, path: f.path, query: s.query(), accept: f.decoder.accepts(acceptWatch, acceptWhole)}
	sent := time.Now()
	resp, err := f.c.send(connection, f.c.streams, q)
	if !s.initial {
		s.slot.release()
		s.slot = nil
	}
	if err != nil {
		return broken(q.op(), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s.refused(q, resp)
	}
	f.hearDate(sent, resp)
	events, err := newEvents(resp, &f.decoder)
	if err != nil {
		return broken(q.op(), err)
	}
	epoch := f.c.continuity.hear(time.Now())
	if !s.initial && f.version != "" && epoch != f.checked {
		if f.t.Aggregated {
			f.version = "" // no witness proves its history
		}
		return errEnded // the API server was away since: the watch may not be resumable
	}
	if f.version == "" && !s.initial {
		// The watch reports what happens during the list. It began without a version.
		s.silence.Hold() // the list has timeouts of its own
		if err := f.pages(ctx); err != nil {
			return err
		}
		s.listen()
		epoch = f.epoch // the list's
	}
	if f.batch = f.away(epoch); s.initial {
		f.batch = append(f.batch, f.listing())
	} else if f.failing {
		f.batch = append(f.batch, Event{Kind: Synced, ResourceVersion: f.version})
		f.failing = false
	}
	for {
		if err := s.step(ctx, events); err != nil {
			return err
		}
	}
}

// refused turns an error response to a watch into an error.
func (s *streaming) refused(q request, resp *http.Response) error {
	a, err := readAnswer(resp, maxAnswer)
	if err != nil {
		return broken(q.op(), err)
	}
	if s.initial && (a.code == http.StatusUnprocessableEntity || a.code == http.StatusBadRequest) {
		return errUnstreamed
	}
	return q.refused(a)
}

// step reads one event. If it has to wait for one, it first passes the collected events to the
// sink. A list is passed in full batches only, because it is of no use before its end.
func (s *streaming) step(ctx context.Context, from events) error {
	f := s.f
	waits := !from.ready()
	if waits {
		if len(f.batch) > 0 && !s.initial {
			if err := s.flush(ctx); err != nil {
				return err
			}
			f.decoder.reset()
		}
		s.listen()
	}
	t, err := from.next()
	if err != nil {
		return s.end(ctx, err)
	}
	if waits {
		f.c.continuity.hear(time.Now())
	}
	if err := t.unsound(); err != nil && !f.t.Aggregated {
		return s.end(ctx, err)
	}
	if err := s.take(ctx, t); err != nil {
		return err
	}
	if len(f.batch) >= maxBatch {
		err = s.flush(ctx)
		s.listen()
		return err
	}
	return nil
}

// flush passes the collected events to the sink. The time that the sink takes is not the server's
// silence.
func (s *streaming) flush(ctx context.Context) error {
	s.silence.Hold()
	return s.f.flush(ctx)
}

// listen begins to wait for the server, from which nothing was read until now. During a list the
// server may be silent no longer than for any answer.
func (s *streaming) listen() {
	idle := s.f.c.timing.idle
	if s.initial {
		idle = s.f.c.timeout
	}
	s.silence.Heard(idle)
	s.slot.heard()
}

// end returns the error with which a stream ended. A stream that was cut off or fell silent can
// resume (errEnded). One that ended with an error of the server or malformed data cannot.
func (s *streaming) end(ctx context.Context, err error) error {
	flushed := s.f.flush(ctx)
	s.lost = strings.Contains(err.Error(), "client connection lost") // net/http exports no error for it
	var f *fault.Answer
	if errors.As(err, &f) && s.initial && f.Kind == errExpired {
		f.Kind = ErrUnavailable // a list needs no old version: the server itself cannot read the type
	}
	if f != nil || errors.Is(err, ErrMalformed) {
		return errors.Join(broken("GET "+s.f.path, err), flushed)
	}
	return errors.Join(errEnded, flushed)
}

// take turns an event of the watch into an Event, and moves f.version forward.
func (s *streaming) take(ctx context.Context, t watchEvent) error {
	f := s.f
	switch t.what {
	case Observed:
		f.batch = append(f.batch, f.observed(t.item))
	case Deleted:
		e := f.observed(t.item)
		if e.Kind == Observed || t.Name != "" && t.UID != "" {
			e.Kind, e.Err = Deleted, nil
		}
		f.batch = append(f.batch, e)
	case Progress:
		if s.initial && t.initialEnd {
			s.initial = false
			s.slot.release()
			return f.synced(ctx, t.ResourceVersion)
		}
		if s.initial || t.ResourceVersion == "" {
			return nil
		}
		f.batch = append(f.batch, Event{Kind: Progress, ResourceVersion: t.ResourceVersion})
	}
	if !s.initial && t.ResourceVersion != "" {
		f.version = t.ResourceVersion
		if v, ok := number64(f.version); ok {
			f.highest = max(f.highest, v)
		}
	}
	return nil
}

// slot is a place among the lists, or the watches being opened, at the same time. It is given up
// after some silence, so that broken types do not hold up the others.
type slot struct {
	timer *time.Timer
	free  func() // gives up the slot, once
	quiet time.Duration
}

// place waits for a slot of c.lists or of c.opens. If there is no connection, each watch that is
// opened dials one, and the first that is ready serves all.
func (c *Client) place(ctx context.Context, places chan struct{}) *slot {
	s := &slot{quiet: c.timing.silence, free: func() {}}
	select {
	case places <- struct{}{}:
		s.free = sync.OnceFunc(func() { <-places })
	case <-ctx.Done():
	}
	s.timer = time.AfterFunc(s.quiet, s.free)
	return s
}

func (s *slot) heard() {
	if s != nil {
		s.timer.Reset(s.quiet)
	}
}

func (s *slot) release() {
	s.timer.Stop()
	s.free()
}
