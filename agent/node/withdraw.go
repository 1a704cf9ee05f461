package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// lastLookPause is how long an image's names are away before the last look: time
// for a pod that was bound before to arrive at the source. What comes later finds
// no image, and pulls it.
const lastLookPause = 25 * time.Millisecond

// takeAway removes an image so that no container can start from it between the
// last look and the removal (kubernetes issue 123631): its names go first, then
// it is looked once more, and only then the rest goes. why is not empty if the
// image stayed after all.
func (a *Agent) takeAway(ctx context.Context, i inventory.Image) (why string, err error) {
	w, err := a.rt.Withdraw(ctx, i.ID)
	switch {
	case errors.Is(err, inventory.ErrNotFound):
		return "", nil // somebody else removed it, just now
	case errors.Is(err, inventory.ErrUnsupported), errors.Is(err, inventory.ErrNoSpace):
		// To withdraw takes a little space first. Where there is none, a gap of some
		// milliseconds is the lesser evil.
		a.log.Debug("image is removed without being withdrawn first", "image", i.ID, "reason", err)
		return "", a.rt.Remove(ctx, i.ID)
	case err != nil:
		a.unmended = true
		return "", err
	}
	if a.pods != nil && !sleep(ctx, lastLookPause) {
		why = "the agent is ending"
	}
	var unknown error
	if why == "" {
		why, unknown = a.neededAfterAll(ctx, i, w)
	}
	if why == "" && unknown == nil {
		err = w.Complete(ctx)
	} else {
		err = w.Restore(ctx)
	}
	a.unmended = a.unmended || err != nil
	return why, errors.Join(unknown, err)
}

// neededAfterAll is the last look: "" lets the image go.
func (a *Agent) neededAfterAll(ctx context.Context, i inventory.Image, w inventory.Withdrawal) (string, error) {
	users, err := w.Users(ctx)
	if err != nil {
		return "", fmt.Errorf("look whether it came into use: %w", err)
	}
	if len(users) > 0 {
		return "in use by " + users[0], nil
	}
	// Without an answer the last one counts; nowKept has asked a moment ago.
	_, _ = a.readPods(ctx)
	if by := a.podBook.wantedBy(i); len(by) > 0 {
		return "wanted by " + by[0], nil
	}
	return "", nil
}

// mend brings withdrawals to an end that a crash, or a runtime that went away, has
// interrupted. If that fails, reclaim goes on all the same: the disk may be full.
func (a *Agent) mend(ctx context.Context) {
	if !a.unmended {
		return
	}
	n, err := a.rt.Mend(ctx)
	if n > 0 {
		a.metrics.mended.Add(float64(n))
		a.log.Info("names of images put back", "images", n, "reason", "their removal was begun and not ended")
	}
	if err != nil {
		a.said.once(a.log, "mend", levelWarn, "the names of some images cannot be put back; trying again", "error", err)
		return
	}
	a.said.clear(a.log, "mend", "the names of images are complete again")
	a.unmended = false
}
