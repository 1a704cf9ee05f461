package metadata

import (
	"context"
	"errors"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// pages lists the type page by page, for servers that do not stream lists.
func (f *Follower) pages(ctx context.Context) error {
	done := f.c.listSlot(ctx)
	defer done.release()
	limit, whole := pageSize, f.whole
	if f.whole = false; whole {
		limit = 0
	}
	f.asked, f.listed, f.floor = time.Now(), 0, f.c.continuity.floor()
	var first, p page
	for begun := false; !begun || p.next != ""; begun = true {
		var err error
		var objects []Event
		begin := func() {
			if !begun && objects == nil {
				objects = append(f.away(f.c.continuity.hear(time.Now())), f.listing())
			}
		}
		p, err = f.list(ctx, p.next, limit, func(it item) error {
			begin()
			f.listed++
			if objects = append(objects, f.observed(it)); len(objects) < maxBatch {
				return nil
			}
			full := objects
			objects = make([]Event, 0, maxBatch)
			return f.deliver(ctx, full)
		})
		if begun && errors.Is(err, errExpired) {
			return f.expired(whole, err)
		}
		if err != nil {
			return err
		}
		if begin(); !begun {
			first = p
		}
		if len(objects) == 0 {
			continue
		}
		if err := f.deliver(ctx, objects); err != nil {
			return err
		}
	}
	return f.synced(ctx, first.version)
}

// expired finds a way out for a list whose next page etcd has forgotten. Going on with
// the newest state, as the server offers, would not help: the watch would have to begin
// where the first page was, and that is forgotten, too. So the next list is one answer.
func (f *Follower) expired(whole bool, err error) error {
	if f.whole = !whole; f.whole {
		return err
	}
	return &problem{Fault: fault.Fault{Op: "GET " + f.path, Kind: ErrUnavailable, Text: "its lists expire before they were read, also without a limit"}}
}
