package metadata

import (
	"context"
	"time"
)

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
