package reclaim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// LastLookPause is how long an image is without its names before the last look. A pod that was
	// bound before arrives at the source of pods in that time. A later pod finds no image, and pulls
	// it.
	LastLookPause = 25 * time.Millisecond

	// NamesAwayMost is how long images may be without their names before a group stops. Then the
	// remaining images get their names back, and their turn comes again. A withdrawal or a collection
	// that has begun is finished.
	NamesAwayMost = 2 * time.Second

	// restoreMost bounds how long the names of an image may take to be restored. When the agent stops,
	// it bounds those of all images together.
	restoreMost = 10 * time.Second

	// groupMost bounds how many images wait for their last look together.
	groupMost = 8
)

// leaving is an image whose removal is under way.
type leaving struct {
	image.Decision
	image inventory.Image
	names inventory.Withdrawal // nil: it was not withdrawn
	begun time.Time
	used  time.Time // its last use that the plan knew

	attempt *history.Attempt
}

// groupSize returns how many images of the plan may wait for their last look together. It begins with
// one, and doubles as long as all images of a group are removed. So most removals, which are of a few
// images, are one at a time. On a disk that fills fast, the run does not wait for a pause, a collection and
// the space of each image: all images of the plan go together.
func (run *Run) groupSize() int {
	if run.pace.fast(run.r.target, run.o.Boot()) {
		return groupMost
	}
	return max(1, min(2*run.group, groupMost))
}

// removeGroup removes images so that no container can start from one between the last look and its
// removal (kubernetes issue 123631). It removes the names first, then looks once more, and only then
// removes the rest. If the disk is lower by then, so that a new plan lacks some of the images, these
// get their names back: spared is how many.
func (run *Run) removeGroup(ctx context.Context, plan []image.Decision) (spared int, v verdict) {
	before, target, begun := run.outcome.removed, run.r.target, run.o.Now()
	tooLong := func() bool { return run.o.Now().Sub(begun) >= NamesAwayMost }
	group, v := run.withdraw(ctx, plan, tooLong)
	why := whyEarly
	asking, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		run.putBack(ctx, group, why)
		run.o.Outside(run.asking.Wait) // for an answer that was not needed
		spared += len(group)
		if run.group = 0; run.outcome.removed-before == len(plan) {
			run.group = len(plan)
		}
	}()
	if v == stop || len(group) == 0 || run.o.Pods.Source != nil && !run.o.Sleep(ctx, LastLookPause) {
		return spared, v
	}
	booked(ctx, run, group)
	for first := true; len(group) > 0 && !run.pass.doubt; first = false {
		if !first && tooLong() {
			why = "those before it took long; its turn comes again"
			return spared, goOn
		}
		users := run.askUsers(asking, group) // in parallel to the plan below
		// Without an answer the latest one counts: withdraw has asked a moment ago.
		_, _ = run.o.Pods.Read(ctx)
		now, err := run.o.Disks.Measure(target.Filesystem)
		if err != nil {
			return spared, run.interrupted(err)
		}
		if !run.r.plan(run.pass.inv) || run.r.target != target {
			return spared, goOn
		}
		plan := target.removes()
		free, _ := run.allowed()
		goes := plan[:min(free, len(plan), len(group))] // one that was put back may be in it again, before others
		if n := slices.IndexFunc(group, func(l leaving) bool { return !slices.Contains(goes, l.ImageID) }); n >= 0 {
			run.putBack(ctx, group[n:n+1], "")
			if why := run.nowKept(group[n].image, group[n].used); why != "" {
				run.stays(group[n], why)
			}
			group[n].staysFor(whySpared(plan, group[n].ImageID, free))
			group = slices.Delete(group, n, n+1)
			spared++
			continue
		}
		for n, l := range group { // what one frees depends on which others go
			group[n].Decision = target.plan.Remove[slices.Index(plan, l.ImageID)]
		}
		batch := group[:together(target.plan, group, run.pace.fast(target, run.o.Boot()))]
		group = group[len(batch):]
		if run.letGo(ctx, batch, users, now) == stop {
			return spared, stop
		}
	}
	return spared, goOn
}

// whySpared returns why an image of a group is not to go now. plan has the IDs of the images that the latest plan
// removes, in its order. free is how many of them the cap allows.
func whySpared(plan []string, id string, free int) string {
	switch n := slices.Index(plan, id); {
	case n < 0:
		return "its removal is not needed any more"
	case n >= free:
		return "not more may go in this hour"
	}
	return "another image's turn comes first"
}

// withdraw removes the names of the images that may still be removed, one after the other until that
// takes too long.
func (run *Run) withdraw(ctx context.Context, plan []image.Decision, tooLong func() bool) (group []leaving, v verdict) {
	used := make([]time.Time, len(plan)) // before another goroutine can record a use
	for n, d := range plan {
		used[n] = run.o.LastUse.Image(d.ImageID).LastUsed
	}
	attempts := run.r.gate.History.Begin(run.o.entries(plan, run.asked)...)
	defer func() { // those whose turn did not come
		for _, a := range attempts {
			a.Cancel()
		}
	}()
	if _, err := run.o.Pods.ReadNow(ctx); err != nil && ctx.Err() != nil {
		return nil, stop
	}
	// If the runtime has sent no event since it listed the images, they need not be read again. The
	// withdrawal refuses an image that has changed, and the last look finds new users.
	begun, fresh := run.o.Now(), func(n int) (inventory.Image, error) { return run.o.LastUse.Known()[plan[n].ImageID], nil }
	if more := run.o.HearEvents(); !run.pass.listed || more {
		fresh = run.fresh(ctx, plan)
	}
	run.pass.listed = false
	for n, d := range plan {
		if n > 0 && tooLong() || run.pass.away != nil || run.pass.doubt {
			break
		}
		i, err := fresh(n)
		l, why := leaving{Decision: d, image: i, begun: begun, used: used[n], attempt: attempts[0]}, ""
		attempts = attempts[1:]
		if err == nil {
			why, err = run.takeNames(ctx, &l)
		}
		switch err = silence(err); {
		case why != "":
			run.stays(l, why)
		case err == nil || withoutNames(err):
			if err != nil {
				run.o.Log.Debug("image is removed without being withdrawn first", "image", d.ImageID, "reason", err)
			}
			group = append(group, l)
		default:
			if run.notWithdrawn(ctx, l, err) == stop {
				return group, stop
			}
		}
	}
	return group, goOn
}

// withoutNames reports whether an image is removed although it could not be withdrawn. A withdrawal
// needs a little space. Where there is none, a gap of some milliseconds is the lesser evil. But while
// what is left of a withdrawal holds the image, its removal frees nothing.
func withoutNames(err error) bool {
	return (errors.Is(err, inventory.ErrUnsupported) || errors.Is(err, inventory.ErrNoSpace)) && !errors.Is(err, inventory.ErrNamesAway)
}

// notWithdrawn handles an image that could not be read or withdrawn.
func (run *Run) notWithdrawn(ctx context.Context, l leaving, err error) verdict {
	switch {
	case errors.Is(err, inventory.ErrNotFound):
		l.attempt.Cancel()
		run.pass.gone(l.ImageID) // another process removed it
		return goOn
	case ctx.Err() != nil:
		l.attempt.Unknown(whyEnds)
		run.r.unmended = true
		return stop
	case errors.Is(err, inventory.ErrUnavailable):
		l.attempt.Unknown(err.Error())
		run.r.unmended = true
		return run.interrupted(err)
	case errors.Is(err, inventory.ErrNamesAway):
		namesAway(run, l, err)
		return goOn
	}
	run.r.unmended = true
	run.removalFailed(l, err)
	return goOn
}

// namesAway records that the names of an image could not be put back. They are, before anything else goes.
func namesAway(run *Run, l leaving, err error) {
	l.attempt.Unknown(err.Error())
	run.r.unmended, run.pass.away = true, err
	run.o.Log.Warn("the names of an image could not be put back; trying again", "image", l.ImageID,
		"references", l.image.References, "reason", "its removal was begun and not ended", "error", err)
}

// takeNames withdraws an image, unless it must be kept: then why is the reason.
func (run *Run) takeNames(ctx context.Context, l *leaving) (why string, err error) {
	if why = run.nowKept(l.image, l.used); why != "" {
		return why, nil
	}
	run.o.LastUse.Withdrawn(l.ImageID, l.begun)
	run.o.Outside(func() { l.names, err = run.r.runtime.Withdraw(ctx, l.image) })
	switch {
	case err == nil || errors.Is(err, inventory.ErrNamesAway):
	case errors.Is(err, inventory.ErrNamesBack):
		run.o.LastUse.Back(l.ImageID)
	default:
		run.o.LastUse.NotWithdrawn(l.ImageID)
	}
	if errors.Is(err, inventory.ErrChanged) {
		return whyChanged, nil
	}
	return "", err
}

// together returns how many images of the group are removed together, so that the runtime collects once
// for them and the disk is measured once. They are computed to free at most half of what is still to be
// freed, so the last images of a run are removed one by one. If only their age asks for it, or if the disk
// fills fast, all are removed together.
func together(p image.Plan, group []leaving, fast bool) int {
	var frees image.Decision
	needed := (p.NeedBytes > 0 || p.NeedInodes > 0) && !fast
	reached := func(need, frees uint64) bool { return need == 0 || 2*frees > need }
	for n, l := range group {
		frees.FreesBytes, frees.FreesInodes = frees.FreesBytes+l.FreesBytes, frees.FreesInodes+l.FreesInodes
		if l.names == nil || needed && reached(p.NeedBytes, frees.FreesBytes) && reached(p.NeedInodes, frees.FreesInodes) {
			return max(n, 1)
		}
	}
	return len(group)
}

// letGo removes a batch of images, except for those that the last look finds needed.
func (run *Run) letGo(ctx context.Context, batch []leaving, users func() ([][]string, error), before watermark.Measured) verdict {
	needed, err := run.needed(ctx, batch, users)
	v := goOn
	if err != nil {
		run.putBack(ctx, batch, "")
		for _, l := range batch {
			if v == stop {
				l.staysFor(whyEarly)
				continue
			}
			v = run.notRemoved(ctx, l, err)
		}
		return v
	}
	var goes, gone []leaving
	defer func() { run.putBack(ctx, goes, whyEarly) }() // the rest, if it ends early
	for n, l := range batch {
		if needed[n] == "" {
			goes = append(goes, l)
			continue
		}
		run.putBack(ctx, batch[n:n+1], "")
		run.stays(l, needed[n])
	}
	for len(goes) > 0 && v == goOn {
		if run.paused() {
			v = stop
			break
		}
		l := goes[0]
		goes = goes[1:]
		var err error
		if l.names == nil {
			run.o.Outside(func() { err = run.r.runtime.Remove(ctx, l.ImageID) })
		} else {
			run.o.Outside(func() { err = l.names.Complete(ctx, len(goes) == 0) })
		}
		if err = silence(err); err == nil {
			gone = append(gone, l)
			continue
		}
		v = run.notRemoved(ctx, l, err)
		switch {
		case l.names == nil:
		case errors.Is(err, inventory.ErrUnavailable) || errors.Is(err, inventory.ErrNotFound):
			run.r.unmended = true // it is unknown how far the runtime came
		default:
			run.putBack(ctx, []leaving{l}, "")
		}
	}
	if len(gone) > 0 {
		run.measure(ctx, gone, before)
	}
	return v
}

// notRemoved handles an image whose last look or removal failed.
func (run *Run) notRemoved(ctx context.Context, l leaving, err error) verdict {
	switch {
	case errors.Is(err, inventory.ErrNotFound):
		if l.names == nil {
			l.attempt.Cancel() // another process removed it
		}
		l.attempt.Unknown("somebody else ended what was begun")
		run.pass.gone(l.ImageID)
	case ctx.Err() != nil:
		l.attempt.Unknown(whyEnds)
		return stop
	case errors.Is(err, inventory.ErrUnavailable):
		l.attempt.Unknown(err.Error())
		return run.interrupted(err)
	default:
		run.removalFailed(l, err)
	}
	return goOn
}

// askUsers asks the runtime for the users of the withdrawn images of a group, and returns at once.
// answer waits for the result, which is in the group's order.
func (run *Run) askUsers(ctx context.Context, group []leaving) (answer func() ([][]string, error)) {
	var names []inventory.Withdrawal
	for _, l := range group {
		if l.names == nil {
			break // this one is alone in its batch, and is read again
		}
		names = append(names, l.names)
	}
	var users [][]string
	var err error
	answered := make(chan struct{})
	run.asking.Go(func() {
		defer close(answered)
		if len(names) > 0 {
			users, err = run.r.runtime.Users(ctx, names...)
		}
	})
	return func() ([][]string, error) {
		run.o.Outside(func() { <-answered })
		return users, err
	}
}

// silence returns an error that the runtime did not answer in time as inventory.ErrUnavailable: that is no
// fault of the images that it was asked about.
func silence(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", inventory.ErrUnavailable, err)
	}
	return err
}

// needed is the last look. It returns why each image of the batch is needed after all; "" if it may be
// removed. users returns the runtime's answer for the group that begins with the batch. An image that
// could not be withdrawn is alone in its batch.
func (run *Run) needed(ctx context.Context, batch []leaving, users func() ([][]string, error)) (needed []string, err error) {
	needed = make([]string, len(batch))
	if batch[0].names == nil {
		i, err := run.fresh(ctx, []image.Decision{batch[0].Decision})(0)
		if err == nil {
			needed[0] = run.nowKept(i, batch[0].used)
		}
		return needed, silence(err)
	}
	using, err := users()
	if err = silence(err); err != nil {
		return nil, fmt.Errorf("look whether they came into use: %w", err)
	}
	for n, l := range batch {
		if slices.ContainsFunc(using[n], inventory.IsName) {
			run.o.LastUse.Renewed(l.ImageID)
		}
		if needed[n] = run.o.Pods.Keep(l.image, run.o.LastUse.Image(l.ImageID).Arrived); len(using[n]) > 0 {
			needed[n] = "in use by " + using[n][0]
		} else if needed[n] == "" {
			needed[n] = run.usedSince(l.image, l.used)
		}
	}
	return needed, nil
}

// putBack restores the names of images, also when the agent stops. why is the reason for the history;
// with "" the caller records it.
func (run *Run) putBack(ctx context.Context, group []leaving, why string) {
	for _, l := range group {
		if l.names == nil {
			l.staysFor(why)
			continue
		}
		by := time.Now().Add(restoreMost)
		if ctx.Err() != nil {
			run.stopBy = cmp.Or(run.stopBy, by)
			by = run.stopBy
		}
		err := run.pass.away
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) { // a silent runtime is not waited for again and again
			err = restore(ctx, run.o, l.names, by)
		}
		if err != nil {
			namesAway(run, l, err)
			continue
		}
		run.o.LastUse.Back(l.ImageID)
		l.staysFor(why)
	}
}

// restore restores the names of an image by a deadline, also if ctx is done.
func restore(ctx context.Context, o *Options, names inventory.Withdrawal, by time.Time) (err error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), by)
	defer cancel()
	o.Outside(func() { err = names.Restore(ctx) })
	return err
}
