package node

import (
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// againWithin is how soon after its removal an image that comes counts as pulled
	// again: its removal cost a pull, and freed nothing for good.
	againWithin = 24 * time.Hour

	// removedMost bounds how many removed images are remembered.
	removedMost = 1000
)

// noteRemoved remembers an image that goes, and forgets those that went long ago.
func (a *Agent) noteRemoved(l leaving, now time.Time) {
	r := a.rec.Images[l.ImageID]
	a.rec.Removed[l.ImageID] = state.Removed{
		At: now, Reason: string(l.Reason), Bytes: l.FreesBytes, References: l.image.References,
		LastUsed: r.LastUsed, Again: r.Again,
	}
	oldest := ""
	for id, was := range a.rec.Removed {
		if now.Sub(was.At) > againWithin {
			delete(a.rec.Removed, id)
		} else if oldest == "" || was.At.Before(a.rec.Removed[oldest].At) {
			oldest = id
		}
	}
	if len(a.rec.Removed) > removedMost {
		delete(a.rec.Removed, oldest)
	}
}

// pulledAgain counts an image that comes back within a day of its removal. As an image it
// is new all the same: were it as old as it was, it would be the next one to go, and
// would be pulled in a circle.
func (a *Agent) pulledAgain(i inventory.Image, r *state.Image, now time.Time) {
	was, ok := a.rec.Removed[i.ID]
	delete(a.rec.Removed, i.ID)
	after := now.Sub(was.At)
	if !ok || after > againWithin {
		return
	}
	r.Again = was.Again + 1
	a.metrics.again.Inc()
	a.metrics.againBytes.Add(float64(was.Bytes))
	a.log.Info("image was pulled again after its removal", "image", i.ID, "references", i.References, "reason", was.Reason,
		"after", after.Round(time.Second).String(), "freed_bytes", was.Bytes, "times", r.Again, "last_used", lastUsedText(was.LastUsed))
}
