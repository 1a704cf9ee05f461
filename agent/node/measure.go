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

// measured is a reading, and how much had been given back on the filesystem by
// then; only differences of that mean something. counted is false where the kernel
// does not count it.
type measured struct {
	reading
	givenBack uint64 // bytes
	counted   bool
}

func (a *Agent) readMeasured() (m measured, err error) {
	if m.reading, err = a.read(a.target.filesystem); err != nil || a.probes == nil {
		return m, err
	}
	// An error only costs the wait.
	m.givenBack, m.counted, _ = a.probes.GivenBack(m.Dev)
	m.givenBack *= m.BlockSize
	return m, nil
}

// freed is what came free since, in spite of those who write meanwhile.
func (m measured) freed(since measured) uint64 {
	free := gained(since.AvailableBytes, m.AvailableBytes)
	if m.counted && since.counted && m.givenBack > since.givenBack {
		free = max(free, m.givenBack-since.givenBack)
	}
	return free
}

// measure makes the disk's figure true after a removal. If less was freed than
// computed it waits until the free space stops growing; settled is false if
// that did not happen before the deadline. A writer that fills the disk at the same time
// looks like a shortfall where what was given back is not counted, and costs a wait.
func (a *Agent) measure(ctx context.Context, before measured, d image.Decision) (after measured, settled bool) {
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
	a.target.reading = after.reading
	want := d.FreesBytes - min(d.FreesBytes, max(measureSlack, d.FreesBytes/measureSlackShare))
	best, since := after.AvailableBytes, time.Now()
	for gained(before.AvailableBytes, after.AvailableBytes) < want {
		if after, err = a.readMeasured(); err != nil {
			return after, false
		}
		a.target.reading = after.reading
		if after.freed(before) >= want {
			return after, true
		}
		if after.AvailableBytes > best {
			best, since = after.AvailableBytes, time.Now()
		}
		if time.Since(since) >= quietFor {
			a.metrics.shortfalls.Inc()
			return after, true
		}
		if !sleep(ctx, quietPoll) {
			return after, false
		}
		a.alive()
	}
	return after, true
}
