package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
// filled fast does not wait for a pause, and a collection, for each.
func groupSize(r *run) int { return max(1, min(2*r.group, groupMost)) }

// removeGroup removes images so that no container can start from one between the
// last look and its removal (kubernetes issue 123631): their names go first, then it
// is looked once more, and only then the rest goes. Those that the plan has no more by
// then, for the disk is lower than it was, get their names back: spared is how many.
func (a *Agent) removeGroup(ctx context.Context, r *run, plan []image.Decision) (spared int, v verdict) {
	before, target := r.removed, a.target
	group, v := a.withdraw(ctx, r, plan)
	defer func() {
		a.putBack(ctx, group)
		spared += len(group)
		if r.group = 0; r.removed-before == len(plan) {
			r.group = len(plan)
		}
	}()
	if v == stop || len(group) == 0 || a.pods != nil && !sleep(ctx, lastLookPause) {
		return spared, v
	}
	looked := time.Time{}
	for len(group) > 0 {
		a.alive()
		now, err := a.readMeasured()
		if err != nil {
			return spared, r.interrupted(err)
		}
		if target.reading = now.reading; !a.plan(r.inv) || a.target != target {
			return spared, goOn
		}
		goes := func(l leaving) bool { return target.removes(l.ImageID) }
		if n := slices.IndexFunc(group, func(l leaving) bool { return !goes(l) }); n >= 0 {
			a.putBack(ctx, group[n:n+1])
			group = slices.Delete(group, n, n+1)
			spared++
			continue
		}
		if time.Since(looked) >= lastLookPause {
			// Without an answer the last one counts; withdraw has asked a moment ago.
			looked = time.Now()
			_, _ = a.readPods(ctx)
		}
		batch := group[:a.batch(group)]
		group = group[len(batch):]
		if a.letGo(ctx, r, batch, now) == stop {
			return spared, stop
		}
	}
	return spared, goOn
}

// withdraw takes the names of those images away that the world still lets go.
func (a *Agent) withdraw(ctx context.Context, r *run, plan []image.Decision) (group []leaving, v verdict) {
	if _, err := a.readPods(ctx); err != nil && ctx.Err() != nil {
		return nil, stop
	}
	// Where the runtime has told of nothing since it listed them, no reading is needed: the
	// withdrawal refuses what has changed all the same, and the last look finds who else came.
	begun, fresh := a.clock.now(), func(n int) (inventory.Image, error) { return a.known[plan[n].ImageID], nil }
	if !r.listed || len(a.events) > 0 {
		fresh = a.fresh(ctx, plan)
	}
	r.listed = false
	for n, d := range plan {
		i, err := fresh(n)
		l, why := leaving{Decision: d, image: i, begun: begun}, ""
		if err == nil {
			why = a.nowKept(l.image)
		}
		if err == nil && why == "" {
			a.away.taken(d.ImageID, begun)
			if l.names, err = a.rt.Withdraw(ctx, i); errors.Is(err, inventory.ErrChanged) {
				delete(a.away, d.ImageID)
				why, err = whyChanged, nil
			}
		}
		switch {
		case errors.Is(err, inventory.ErrNotFound):
			delete(a.away, d.ImageID)
			r.gone(d.ImageID) // somebody else removed it
			continue
		case errors.Is(err, inventory.ErrUnsupported), errors.Is(err, inventory.ErrNoSpace):
			delete(a.away, d.ImageID)
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
			a.stays(r, l.image, why)
			continue
		}
		group = append(group, l)
	}
	return group, goOn
}

// fresh reads the images of a plan anew, all at once; should that fail, each alone when it is
// asked for, so that only the one at fault is blamed.
func (a *Agent) fresh(ctx context.Context, plan []image.Decision) func(n int) (inventory.Image, error) {
	checked, err := a.check(ctx, plan)
	alone := err != nil && len(plan) > 1 && !errors.Is(err, inventory.ErrUnavailable)
	return func(n int) (inventory.Image, error) {
		if alone {
			checked, err = a.check(ctx, plan[n:n+1])
		}
		i, there := checked[plan[n].ImageID]
		if err == nil && !there {
			return i, inventory.ErrNotFound
		}
		return i, err
	}
}

// check reads images anew, and again if one is missing whose names have just been put back.
func (a *Agent) check(ctx context.Context, plan []image.Decision) (map[string]inventory.Image, error) {
	ids := make([]string, len(plan))
	for n, d := range plan {
		ids[n] = d.ImageID
	}
	for {
		checked, err := a.rt.Check(ctx, ids...)
		if err != nil {
			return nil, fmt.Errorf("check before removal: %w", err)
		}
		missing := func(id string) bool { return checked[id].ID == "" && slices.Contains(ids, id) }
		if !a.away.late(a.clock.now(), missing) || !sleep(ctx, listedTick) {
			return checked, nil
		}
		a.alive()
	}
}

// batch is how many images of the group go together, so that the runtime collects, and
// the disk is measured, once for them: as many as are computed to free at most half of
// what is left to free. The last ones of a run go one by one.
func (a *Agent) batch(group []leaving) int {
	p, frees := a.target.plan, image.Decision{}
	reached := func(need, frees uint64) bool { return need == 0 || 2*frees > need }
	for n, l := range group {
		frees.FreesBytes, frees.FreesInodes = frees.FreesBytes+l.FreesBytes, frees.FreesInodes+l.FreesInodes
		if l.names == nil || l.Reason == image.RemovedThreshold && reached(p.NeedBytes, frees.FreesBytes) && reached(p.NeedInodes, frees.FreesInodes) {
			return max(n, 1)
		}
	}
	return len(group)
}

// letGo removes images, except for those that the last look finds needed.
func (a *Agent) letGo(ctx context.Context, r *run, batch []leaving, before measured) verdict {
	needed, err := a.needed(ctx, batch)
	v := goOn
	if err != nil {
		a.putBack(ctx, batch)
		for n := 0; n < len(batch) && v == goOn; n++ {
			v = a.notRemoved(ctx, r, batch[n], err)
		}
		return v
	}
	var goes, gone []leaving
	defer func() { a.putBack(ctx, goes) }() // what is left of them when it is over early
	for n, l := range batch {
		if needed[n] == "" {
			goes = append(goes, l)
			continue
		}
		a.putBack(ctx, batch[n:n+1])
		a.stays(r, l.image, needed[n])
	}
	for len(goes) > 0 && v == goOn {
		l := goes[0]
		goes = goes[1:]
		var err error
		if l.names == nil {
			err = a.rt.Remove(ctx, l.ImageID)
		} else {
			err = l.names.Complete(ctx, len(goes) == 0)
			a.unmended = a.unmended || err != nil
		}
		if err == nil {
			gone = append(gone, l)
		} else {
			v = a.notRemoved(ctx, r, l, err)
		}
	}
	if len(gone) > 0 {
		a.removed(ctx, r, gone, before)
	}
	return v
}

// notRemoved is for an image whose last look, or removal, failed.
func (a *Agent) notRemoved(ctx context.Context, r *run, l leaving, err error) verdict {
	switch {
	case errors.Is(err, inventory.ErrNotFound):
		r.gone(l.ImageID)
	case ctx.Err() != nil:
		return stop
	case errors.Is(err, inventory.ErrUnavailable):
		return r.interrupted(err)
	default:
		a.removalFailed(r, l.Decision, err)
	}
	return goOn
}

// needed is the last look: it finds what needs each image after all; "" lets it go. One whose names could
// not be taken away is alone in its batch.
func (a *Agent) needed(ctx context.Context, batch []leaving) (needed []string, err error) {
	needed = make([]string, len(batch))
	if batch[0].names == nil {
		i, err := a.fresh(ctx, []image.Decision{batch[0].Decision})(0)
		if err == nil {
			needed[0] = a.nowKept(i)
		}
		return needed, err
	}
	names := make([]inventory.Withdrawal, len(batch))
	for n, l := range batch {
		names[n] = l.names
	}
	users, err := a.rt.Users(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("look whether they came into use: %w", err)
	}
	for n, l := range batch {
		if needed[n] = a.podsKeep(l.image); len(users[n]) > 0 {
			needed[n] = "in use by " + users[n][0]
		} else if needed[n] == "" {
			needed[n] = a.usedSince(l.image)
		}
	}
	return needed, nil
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
			continue
		}
		a.away.back(a.clock.now(), l.ImageID)
	}
}

// mend brings withdrawals to an end that a crash, or a runtime that went away, has
// interrupted. If that fails, reclaim goes on all the same: the disk may be full.
func (a *Agent) mend(ctx context.Context) {
	if !a.unmended {
		return
	}
	mended, err := a.rt.Mend(ctx)
	a.away.back(a.clock.now(), mended...)
	if n := len(mended); n > 0 {
		a.told = true
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
