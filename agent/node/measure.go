package node

import (
	"context"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

const (
	// measureSlack is what a removal may free less than computed without
	// anybody wondering: filesystem metadata, and the share below.
	measureSlack      = 1 << 20
	measureSlackShare = 50 // one part in 50

	// quietFor is how long the free space must have stopped growing before a
	// removal that freed less than computed counts as settled; quietPoll is how
	// often it is read meanwhile.
	quietFor  = 250 * time.Millisecond
	quietPoll = 20 * time.Millisecond
)

// measure makes the disk's figure true after a removal. If less was freed than
// computed it waits until the free space stops growing; settled is false if
// that did not happen before the deadline. A writer that fills the disk at the
// same time looks the same as a shortfall, and only costs the wait.
func (a *Agent) measure(ctx context.Context, before reading, d image.Decision) (after reading, settled bool) {
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	after = before
	disk, err := a.disk.Settle(ctx, a.target.path)
	if err != nil {
		a.log.Debug("settle", "error", err)
		a.metrics.unsettled.Inc()
		return after, false
	}
	after.Disk = disk
	a.target.reading = after
	want := d.FreesBytes - min(d.FreesBytes, max(measureSlack, d.FreesBytes/measureSlackShare))
	best, since := after.AvailableBytes, time.Now()
	for gained(before.AvailableBytes, after.AvailableBytes) < want {
		if time.Since(since) >= quietFor {
			a.metrics.shortfalls.Inc()
			return after, true
		}
		if !sleep(ctx, quietPoll) {
			return after, false
		}
		a.alive()
		next, err := a.read(a.target.filesystem)
		if err != nil {
			return after, false
		}
		after, a.target.reading = next, next
		if next.AvailableBytes > best {
			best, since = next.AvailableBytes, time.Now()
		}
	}
	return after, true
}
