package containerd

import (
	"context"
	"time"
)

// SnapshotterTimeout is for a test that does not wait as long.
var SnapshotterTimeout = &snapshotterTimeout

func (r *Runtime) UnlistedEnd(ctx context.Context, namespace, id string) (time.Time, error) {
	return r.unlistedEnd(ctx, namespace, id)
}
