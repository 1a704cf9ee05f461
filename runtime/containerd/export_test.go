package containerd

import (
	"context"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// SnapshotterTimeout is for a test that does not wait as long.
var SnapshotterTimeout = &snapshotterTimeout

func (r *Runtime) UnlistedEnd(ctx context.Context, namespace, id string) (time.Time, error) {
	return r.unlistedEnd(ctx, namespace, id)
}

// WithdrawAfter is Withdraw that calls meanwhile when it has read the names, and not deleted them yet.
func (r *Runtime) WithdrawAfter(ctx context.Context, i inventory.Image, meanwhile func()) (inventory.Withdrawal, error) {
	w, err := r.prepare(ctx, i)
	if err != nil {
		return nil, err
	}
	meanwhile()
	return w, w.takeOrUndo(ctx)
}
