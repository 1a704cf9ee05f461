package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/conn"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// watch follows events from f.version on, and moves f.version forward. It always ends with an
// error. begun reports whether the server accepted the watch. life is the time after which the
// server is asked to end it.
func (f *follower) watch(ctx context.Context, life time.Duration) (begun bool, err error) {
	ctx, silence := conn.Listen(ctx, f.timing.connect)
	defer silence.End()
	q := f.query()
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	q.Set("resourceVersion", f.version)
	q.Set("timeoutSeconds", strconv.Itoa(int(life.Seconds())))
	resp, err := f.client.get(ctx, allPods, "application/json", q)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = f.client.broken(f.client.op(allPods), cause)
		}
		return false, err
	}
	defer resp.Body.Close()
	defer f.trustSoon()()
	events := newEventDecoder(resp.Body)
	for {
		silence.Heard(f.timing.idle)
		e, err := events.next()
		if err == nil {
			err = f.take(e)
		}
		switch {
		case err == nil:
		case merelyEnded(err):
			return true, err
		default:
			return true, f.client.broken(f.client.op(allPods), err)
		}
	}
}

// take applies one event.
func (f *follower) take(e event) error {
	// The server accepts a watch from a future version, and is silent until it reaches that
	// version. Only a bookmark with an older version reveals this.
	if older(e.resourceVersion, f.version) {
		return fault.Nonsense("an event of the version %s after %s: was etcd restored?", e.resourceVersion, f.version)
	}
	changed, err := f.store.apply(e)
	if err != nil {
		return err
	}
	f.version, f.seen = e.resourceVersion, e.resourceVersion
	f.notify(changed)
	return nil
}

// trustSoon marks untrusted pods as trusted again once a watch from their last known version has
// lasted for f.timing.trust. Right at the beginning of a watch the server sends what happened
// since that version, or an error if it no longer knows that. The caller calls stop when the
// watch has ended.
func (f *follower) trustSoon() (stop func() bool) {
	doubt, trusted := f.store.doubted()
	if trusted {
		return func() bool { return true }
	}
	return time.AfterFunc(f.timing.trust, func() { f.notify(f.store.trust(doubt)) }).Stop
}

// merelyEnded reports whether a watch ended, was cut off or fell silent. It is false if the
// server sent an error or something that cannot be followed.
func merelyEnded(err error) bool {
	return !errors.Is(err, ErrMalformed) && !errors.Is(err, errExpired) && !errors.Is(err, ErrUnavailable)
}

func (s *APIServer) query() url.Values {
	return url.Values{"fieldSelector": {"spec.nodeName=" + s.node}}
}

// resume watches from the last version on until the watch ends, and returns the pause before the
// next attempt. Without an error the pods are still known.
func (f *follower) resume(ctx context.Context) (pause time.Duration, err error) {
	began, life := time.Now(), f.timing.life+rand.N(f.timing.life)
	begun, err := f.watch(ctx, life)
	lived := time.Since(began)
	if begun && lived > quickEnd {
		f.quick = 0
		f.backoff.Reset()
	}
	switch {
	case begun && errors.Is(err, ErrMalformed), errors.Is(err, errExpired), tooLarge(err):
		// Only a list helps. Other agents probably need one, too: a restarted API server knows no
		// older version.
		f.version, f.shared = "", true
		return 0, err
	case begun && merelyEnded(err):
		if lived >= life-time.Second {
			return 0, nil // the server ended it as requested
		}
		if f.quick++; lived > quickEnd || f.quick <= quickMost {
			return rand.N(f.timing.resume), nil
		}
		// Do not retry in a tight loop if the server ends every watch at once.
		err = &fault.Fault{Op: f.client.op(allPods), Kind: ErrUnavailable, Text: "the watch ends as soon as it begins"}
	}
	return f.again(err), err
}
