package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// lastLookPause is how long an image's names are away before the last look: time
	// for a pod that was bound before to arrive at the source. What comes later finds
	// no image, and pulls it.
	lastLookPause = 25 * time.Millisecond

	// groupMost bounds how many images wait for their last look together.
	groupMost = 8
)

// leaving is an image on its way out.
type leaving struct {
	image.Decision
	image inventory.Image
	names inventory.Withdrawal // nil: they cannot be taken away
	begun time.Time
}

// groupSize is how many images of the plan may wait for their last look together:
// one, and then twice as many each time, as long as all of them go. So most
// removals, which are of a few images, are one at a time, and a disk that is being
// filled fast does not wait for the pause before each.
func (a *Agent) groupSize(r *run) int {
	if a.pods == nil {
		return 1 // there is no pause
	}
	return max(1, min(2*r.group, groupMost))
}

// removeGroup removes images so that no container can start from one between the
// last look and its removal (kubernetes issue 123631): their names go first, then it
// is looked once more, and only then the rest goes, one image at a time, until the
// disk is low. What is not needed any more gets its names back.
func (a *Agent) removeGroup(ctx context.Context, r *run, plan []image.Decision) (v verdict) {
	before := r.removed
	group, v := a.withdraw(ctx, r, plan)
	defer func() {
		a.putBack(ctx, group)
		if r.group = 0; r.removed-before == len(plan) {
			r.group = len(plan)
		}
	}()
	if v == stop || len(group) == 0 || a.pods != nil && !sleep(ctx, lastLookPause) {
		return v
	}
	looked := time.Time{}
	for len(group) > 0 {
		a.alive()
		now, err := a.readMeasured()
		if err != nil {
			return r.interrupted(err)
		}
		l := group[0]
		if a.target.reading = now.reading; l.Reason == image.RemovedThreshold && a.target.low() {
			return goOn
		}
		if time.Since(looked) >= lastLookPause {
			// Without an answer the last one counts; withdraw has asked a moment ago.
			looked = time.Now()
			_, _ = a.readPods(ctx)
		}
		group = group[1:]
		if a.letGo(ctx, r, l, now) == stop {
			return stop
		}
	}
	return goOn
}

// withdraw takes the names of those images away that the world still lets go.
func (a *Agent) withdraw(ctx context.Context, r *run, plan []image.Decision) (group []leaving, v verdict) {
	if _, err := a.readPods(ctx); err != nil && ctx.Err() != nil {
		return nil, stop
	}
	for _, d := range plan {
		l := leaving{Decision: d, begun: a.clock.now()}
		why, err := a.stillGoes(ctx, &l)
		if err == nil && why == "" {
			l.names, err = a.rt.Withdraw(ctx, d.ImageID)
		}
		switch {
		case errors.Is(err, inventory.ErrNotFound):
			continue // somebody else removed it
		case errors.Is(err, inventory.ErrUnsupported), errors.Is(err, inventory.ErrNoSpace):
			// To withdraw takes a little space first. Where there is none, a gap of some
			// milliseconds is the lesser evil.
			a.log.Debug("image is removed without being withdrawn first", "image", d.ImageID, "reason", err)
		case ctx.Err() != nil && err != nil:
			a.unmended = true
			return group, stop
		case errors.Is(err, inventory.ErrUnavailable):
			a.unmended = true
			return group, r.interrupted(err)
		case err != nil:
			a.unmended = true
			a.removalFailed(r, d, err)
			continue
		case why != "":
			a.stays(l.image, why)
			continue
		}
		group = append(group, l)
	}
	return group, goOn
}

// stillGoes reads the image anew; why is not empty if it is to stay.
func (a *Agent) stillGoes(ctx context.Context, l *leaving) (why string, err error) {
	if l.image, err = a.rt.Check(ctx, l.ImageID); err != nil {
		return "", fmt.Errorf("check before removal: %w", err)
	}
	return a.nowKept(l.image), nil
}

// letGo removes one image, unless the last look finds that it is needed.
func (a *Agent) letGo(ctx context.Context, r *run, l leaving, before measured) verdict {
	why, err := a.neededAfterAll(ctx, &l)
	switch {
	case why == "" && err == nil && l.names == nil:
		err = a.rt.Remove(ctx, l.ImageID)
	case why == "" && err == nil:
		err = l.names.Complete(ctx)
		a.unmended = a.unmended || err != nil
	default:
		a.putBack(ctx, []leaving{l})
	}
	switch {
	case err == nil && why == "":
		return a.removed(ctx, r, l.Decision, l.image, before, a.clock.now().Sub(l.begun))
	case errors.Is(err, inventory.ErrNotFound):
		return goOn
	case ctx.Err() != nil && err != nil:
		return stop
	case errors.Is(err, inventory.ErrUnavailable):
		return r.interrupted(err)
	case err != nil:
		a.removalFailed(r, l.Decision, err)
		return goOn
	}
	a.stays(l.image, why)
	return goOn
}

// neededAfterAll is the last look: it finds what needs an image after all; "" lets it go.
func (a *Agent) neededAfterAll(ctx context.Context, l *leaving) (string, error) {
	if l.names == nil {
		return a.stillGoes(ctx, l)
	}
	users, err := l.names.Users(ctx)
	if err != nil {
		return "", fmt.Errorf("look whether it came into use: %w", err)
	}
	if len(users) > 0 {
		return "in use by " + users[0], nil
	}
	if by := a.podBook.wantedBy(l.image); len(by) > 0 {
		return "wanted by " + by[0], nil
	}
	return "", nil
}

// putBack gives images their names back.
func (a *Agent) putBack(ctx context.Context, group []leaving) {
	for _, l := range group {
		if l.names == nil {
			continue
		}
		if err := l.names.Restore(ctx); err != nil {
			a.unmended = true
			a.log.Warn("the names of an image could not be put back; trying again", "image", l.ImageID,
				"references", l.image.References, "reason", "its removal was begun and not ended", "error", err)
		}
	}
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
