package metadata

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// pagedMost is how many objects CatchUp rather lists than waits for a bookmark.
const pagedMost = 10_000

// CatchUp returns once everything that had happened to the type by some moment
// after the call began has been passed to the sink. Run may run meanwhile; it
// need not, but what is listed here alone is not followed then.
//
// A list of the newest state is that proof: what it names is passed on as
// Observed, unless the stream has told of the object since. What it does not name
// is gone, and what a Deleted would tell is not promised here. Of long lists only
// the version is taken, which the stream must have come to.
func (f *Follower) CatchUp(ctx context.Context) error {
	if f.pathErr != nil {
		return f.fault(f.pathErr)
	}
	began := time.Now()
	for {
		again, err := f.catchUp(ctx, began)
		if err != nil {
			return f.fault(err)
		}
		if !again {
			return nil
		}
	}
}

// catchUp tries once. It must be tried again if a list of Run's came between: what
// is not in that list must not be told after it began, or nobody would find out
// that it is gone.
func (f *Follower) catchUp(ctx context.Context, began time.Time) (again bool, err error) {
	if err := f.lock(ctx); err != nil {
		return false, err
	}
	if f.told.listedFrom.After(began) {
		f.unlock()
		return false, nil // proof as good as any
	}
	me := f.register()
	listing, lists, changed := f.told.listing, f.told.lists, f.told.changed
	f.unlock()
	defer f.unregister(me)
	if listing {
		return true, await(ctx, changed)
	}
	var p page
	for begun := false; !begun || p.next != ""; begun = true {
		objects := make([]Event, 0, 64)
		p, err = f.list(ctx, p.next, pageSize, func(it item) error {
			objects = append(objects, f.observed(it))
			return nil
		})
		if errors.Is(err, errExpired) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if again, err := f.insert(ctx, me, lists, objects); again || err != nil {
			return again, err
		}
		target, comparable := number64(p.version)
		if from := f.position(); p.next != "" && comparable && p.remaining > pagedMost && from > 0 {
			return f.awaitVersion(ctx, lists, from, target)
		}
	}
	return false, nil
}

func await(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// register has note tell what the stream tells. The turn must be held.
func (f *Follower) register() *catching {
	me := &catching{uids: make(map[string]struct{})}
	if f.told.catching == nil {
		f.told.catching = make(map[*catching]struct{})
	}
	f.told.catching[me] = struct{}{}
	return me
}

func (f *Follower) unregister(me *catching) {
	f.turn <- struct{}{}
	delete(f.told.catching, me)
	f.unlock()
}

// insert passes on what was listed, in between what the stream tells.
func (f *Follower) insert(ctx context.Context, me *catching, lists uint64, objects []Event) (again bool, err error) {
	if err := f.lock(ctx); err != nil {
		return false, err
	}
	defer f.unlock()
	if f.told.lists != lists {
		return true, nil
	}
	fresh := objects[:0]
	for _, e := range objects {
		if _, newer := me.uids[e.Object.UID]; !newer {
			fresh = append(fresh, e)
		}
	}
	if len(fresh) == 0 {
		return false, nil
	}
	return false, f.sink(ctx, fresh)
}

// position is how far the stream has come; 0 if there is none to wait for.
func (f *Follower) position() uint64 {
	f.turn <- struct{}{}
	defer f.unlock()
	if !f.told.live {
		return 0
	}
	return f.told.passed
}

// awaitVersion waits until the stream has told everything up to target. A type
// on which nothing happens tells that in a bookmark, once a minute; a second
// watch, which ends soon, gets one at once and shows what the stream still has to
// tell before it is there.
func (f *Follower) awaitVersion(ctx context.Context, lists, from, target uint64) (again bool, err error) {
	want := uint64(math.MaxUint64) // until somebody has found out
	found := make(chan uint64, 1)
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		last, err := f.lastBefore(ctx, from, target)
		if err != nil {
			failed <- err
			return
		}
		found <- last
	}()
	for {
		if err := f.lock(ctx); err != nil {
			return false, err
		}
		passed, changed, now := f.told.passed, f.told.changed, f.told.lists
		live := f.told.live
		f.unlock()
		switch {
		case now != lists || !live:
			return true, nil
		case passed >= target, passed >= want:
			return false, nil
		}
		select {
		case <-changed:
		case want = <-found:
		case err := <-failed:
			if errors.Is(err, errExpired) || errors.Is(err, errEnded) {
				return true, nil
			}
			return false, err
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// lastBefore watches from one version until everything up to another was told,
// and returns the version of the last event that is not after it; from if none is.
func (f *Follower) lastBefore(ctx context.Context, from, target uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, f.c.options.Timeout)
	defer cancel()
	// A bookmark comes two seconds before the end.
	q := request{method: http.MethodGet, path: f.path, accept: acceptWatch, query: url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {"3"}, "resourceVersion": {strconv.FormatUint(from, 10)},
	}.Encode()}
	resp, err := f.c.send(ctx, f.c.streams, q)
	if err != nil {
		return 0, broken(q.op(), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		a, err := readAnswer(resp, maxAnswer)
		if err != nil {
			return 0, broken(q.op(), err)
		}
		return 0, q.refused(a)
	}
	var d decoder
	events, err := newEvents(resp, &d)
	if err != nil {
		return 0, broken(q.op(), err)
	}
	for last := from; ; {
		t, err := events.next()
		if err == io.EOF {
			return 0, errEnded
		}
		if err != nil {
			return 0, broken(q.op(), err)
		}
		v, ok := number64(t.ResourceVersion)
		switch {
		case !ok:
			return 0, nonsense("the resource version %s after %d", fault.Clean(t.ResourceVersion), last)
		case v >= target && (t.what == bookmark || v > target):
			return last, nil
		case t.what != bookmark:
			last = v
		}
		if v == target {
			return target, nil
		}
		d.rest()
	}
}
