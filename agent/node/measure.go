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

	// lateFor is how long a removal that freed less than computed is given on a
	// figure that is true: somebody may have had a file open for a moment more.
	// latePoll is how often it is read meanwhile. Others' deletions do not make it
	// longer, for they never end.
	lateFor  = 250 * time.Millisecond
	latePoll = 20 * time.Millisecond
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

// cameFree is what came free since, in spite of those who write meanwhile. Others'
// deletions are in it.
func (m measured) cameFree(since measured) uint64 {
	free := gained(since.AvailableBytes, m.AvailableBytes)
	if m.counted && since.counted && m.givenBack > since.givenBack {
		free = max(free, m.givenBack-since.givenBack)
	}
	return free
}

// outcome is what a removal has freed. Nobody can tell its space from what others
// delete meanwhile: it is never more than what was computed, and about says that
// clearly more came free.
type outcome struct {
	bytes, inodes uint64
	about         bool
}

func outcomeOf(d image.Decision, before, after measured) outcome {
	free := after.cameFree(before)
	return outcome{
		bytes:  min(free, d.FreesBytes),
		inodes: min(gained(before.InodesAvailable, after.InodesAvailable), d.FreesInodes),
		about:  free > d.FreesBytes+slackOf(d.FreesBytes),
	}
}

func slackOf(bytes uint64) uint64 { return max(measureSlack, bytes/measureSlackShare) }

// enough is what must have come free for a removal to count as done as computed.
func enough(d image.Decision) uint64 { return d.FreesBytes - min(d.FreesBytes, slackOf(d.FreesBytes)) }

// measure makes the disk's figure true after a removal, and waits a little if
// less was freed than computed. settled is false if the figure could not be made
// true before the deadline; then it has waited for what was computed. A writer that
// fills the disk at the same time looks like a shortfall where what was given back
// is not counted.
func (a *Agent) measure(ctx context.Context, before measured, d image.Decision) (after measured, settled bool) {
	ctx, cancel := context.WithTimeout(ctx, showDeadline)
	defer cancel()
	_, err := a.disk.Settle(ctx, a.target.path)
	if settled = err == nil; settled {
		ctx, cancel = context.WithTimeout(ctx, lateFor)
		defer cancel()
	} else {
		a.log.Debug("settle", "error", err)
		a.metrics.unsettled.Inc()
	}
	for after = before; ; a.alive() {
		now, err := a.readMeasured()
		if err != nil {
			return after, false
		}
		after = now
		a.target.reading = now.reading
		switch {
		case after.cameFree(before) >= enough(d):
			return after, settled
		case !sleep(ctx, latePoll):
			if settled {
				a.metrics.shortfalls.Inc()
			}
			return after, settled
		}
	}
}
