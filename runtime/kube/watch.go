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

// watch follows events from f.version on, which it moves forward. It always ends with
// an error; begun tells whether the server had agreed to the watch. life is what the
// server is asked to end it after.
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

// take follows one event.
func (f *follower) take(e event) error {
	// A watch from a version that is to come is not refused, but is silent until it has
	// come. Bookmarks tell.
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

// trustSoon makes pods known again that were not, once a watch from where they were last
// known has gone on for a moment: the server sends what happened meanwhile, or that it does
// not know that any more, right at the beginning. The caller calls stop when the
// watch has ended.
func (f *follower) trustSoon() (stop func() bool) {
	doubt, trusted := f.store.doubted()
	if trusted {
		return func() bool { return true }
	}
	return time.AfterFunc(f.timing.trust, func() { f.notify(f.store.trust(doubt)) }).Stop
}

// merelyEnded tells whether a watch ended, was cut or fell silent, as opposed
// to having said something that cannot be followed.
func merelyEnded(err error) bool {
	return !errors.Is(err, ErrMalformed) && !errors.Is(err, errExpired) && !errors.Is(err, ErrUnavailable)
}

func (s *APIServer) query() url.Values {
	return url.Values{"fieldSelector": {"spec.nodeName=" + s.node}}
}

// resume watches from the last version on, until that ends, and says how long to wait
// before the next attempt. Without an error the pods are still known.
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
		// Only a list can tell. It is rarely one agent alone that needs one: an API server
		// that was started anew knows no version from before.
		f.version, f.shared = "", true
		return 0, err
	case begun && merelyEnded(err):
		if lived >= life-time.Second {
			return 0, nil // as it was asked to
		}
		if f.quick++; lived > quickEnd || f.quick <= quickMost {
			return rand.N(f.timing.resume), nil
		}
		// A server that ends every watch at once must not be asked in a circle.
		err = &fault.Fault{Op: f.client.op(allPods), Kind: ErrUnavailable, Text: "the watch ends as soon as it begins"}
	}
	return f.again(err), err
}
