package reclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// LastLookPause is how long an image's names are away before the last look: time
	// for a pod that was bound before to arrive at the source. What comes later finds
	// no image, and pulls it.
	LastLookPause = 25 * time.Millisecond

	// NamesAwayMost is how long images may be without their names before a group goes no further. Then
	// those that are left get them back, and have their turn again. What has begun ends: one withdrawal,
	// or one collection.
	NamesAwayMost = 2 * time.Second

	// restoreMost bounds how long names may take to be put back.
	restoreMost = 10 * time.Second

	// groupMost bounds how many images wait for their last look together.
	groupMost = 8
)

// leaving is an image on its way out.
type leaving struct {
	image.Decision
	image inventory.Image
	names inventory.Withdrawal // nil: they cannot be taken away
	begun time.Time
	used  time.Time // last, as the plan knew it

	attempt *history.Attempt
}

// groupSize is how many images of the plan may wait for their last look together:
// one, and then twice as many each time, as long as all of them go. So most
// removals, which are of a few images, are one at a time, and a disk that is being
// filled fast does not wait for a pause, and a collection, for each.
func (run *Run) groupSize() int { return max(1, min(2*run.group, groupMost)) }

// removeGroup removes images so that no container can start from one between the
// last look and its removal (kubernetes issue 123631): their names go first, then it
// is looked once more, and only then the rest goes. Those that the plan has no more by
// then, for the disk is lower than it was, get their names back: spared is how many.
func (run *Run) removeGroup(ctx context.Context, plan []image.Decision) (spared int, v verdict) {
	before, target, begun := run.outcome.removed, run.r.target, run.o.Now()
	tooLong := func() bool { return run.o.Now().Sub(begun) >= NamesAwayMost }
	group, v := run.withdraw(ctx, plan, tooLong)
	why := "the run ended before its turn"
	defer func() {
		run.putBack(ctx, group, why)
		spared += len(group)
		if run.group = 0; run.outcome.removed-before == len(plan) {
			run.group = len(plan)
		}
	}()
	if v == stop || len(group) == 0 || run.o.Pods.Source != nil && !run.o.Sleep(ctx, LastLookPause) {
		return spared, v
	}
	booked(ctx, run, group)
	for first := true; len(group) > 0; first = false {
		if !first && tooLong() {
			why = "those before it took long; its turn comes again"
			return spared, goOn
		}
		users := run.askUsers(ctx, group) // which takes as long as to plan
		// Without an answer the last one counts; withdraw has asked a moment ago.
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
		goes := plan[:min(free, len(plan))]
		if n := slices.IndexFunc(group, func(l leaving) bool { return !slices.Contains(goes, l.ImageID) }); n >= 0 {
			run.putBack(ctx, group[n:n+1], "")
			if why := run.nowKept(group[n].image, group[n].used); why != "" {
				run.stays(group[n], why)
			}
			if slices.Contains(plan, group[n].ImageID) {
				group[n].staysFor("not more may go in this hour")
			}
			group[n].staysFor("its removal is not needed any more")
			group = slices.Delete(group, n, n+1)
			spared++
			continue
		}
		batch := group[:together(target.plan, group)]
		group = group[len(batch):]
		if run.letGo(ctx, batch, users, now) == stop {
			return spared, stop
		}
	}
	return spared, goOn
}

// withdraw takes the names of those images away that the world still lets go, as many as that does not
// take too long for.
func (run *Run) withdraw(ctx context.Context, plan []image.Decision, tooLong func() bool) (group []leaving, v verdict) {
	used := make([]time.Time, len(plan)) // before anybody else can note a use
	for n, d := range plan {
		used[n] = run.o.LastUse.Image(d.ImageID).LastUsed
	}
	attempts := run.r.gate.History.Begin(run.o.entries(plan, run.asked)...)
	defer func() { // of those that were not come to
		for _, a := range attempts {
			a.Cancel()
		}
	}()
	if _, err := run.o.Pods.ReadNow(ctx); err != nil && ctx.Err() != nil {
		return nil, stop
	}
	// If the runtime has sent no event since it listed them, no reading is needed: the
	// withdrawal refuses what has changed all the same, and the last look finds who else came.
	begun, fresh := run.o.Now(), func(n int) (inventory.Image, error) { return run.o.LastUse.Known()[plan[n].ImageID], nil }
	if more := run.o.HearEvents(); !run.pass.listed || more {
		fresh = run.fresh(ctx, plan)
	}
	run.pass.listed = false
	for n, d := range plan {
		if n > 0 && tooLong() {
			break
		}
		i, err := fresh(n)
		l, why := leaving{Decision: d, image: i, begun: begun, used: used[n], attempt: attempts[0]}, ""
		attempts = attempts[1:]
		if err == nil {
			why, err = run.takeNames(ctx, &l)
		}
		switch {
		case why != "":
			run.stays(l, why)
		case err == nil || withoutNames(err):
			if err != nil {
				run.o.LastUse.NotWithdrawn(d.ImageID)
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

// withoutNames reports whether an image goes although its names could not be taken away. That takes a little
// space first. Where there is none, a gap of some milliseconds is the lesser evil.
func withoutNames(err error) bool {
	return errors.Is(err, inventory.ErrUnsupported) || errors.Is(err, inventory.ErrNoSpace)
}

// notWithdrawn is for an image that could not be read, or whose names could not be taken away.
func (run *Run) notWithdrawn(ctx context.Context, l leaving, err error) verdict {
	switch {
	case errors.Is(err, inventory.ErrNotFound):
		run.o.LastUse.NotWithdrawn(l.ImageID)
		l.attempt.Cancel()
		run.pass.gone(l.ImageID) // somebody else removed it
		return goOn
	case ctx.Err() != nil:
		l.attempt.Unknown(whyEnds)
		run.r.unmended = true
		return stop
	case errors.Is(err, inventory.ErrUnavailable):
		l.attempt.Unknown(err.Error())
		run.r.unmended = true
		return run.interrupted(err)
	}
	run.r.unmended = true
	run.removalFailed(l, err)
	return goOn
}

// takeNames takes an image's names away, unless it stays: why says so.
func (run *Run) takeNames(ctx context.Context, l *leaving) (why string, err error) {
	if why = run.nowKept(l.image, l.used); why != "" {
		return why, nil
	}
	run.o.LastUse.Withdrawn(l.ImageID, l.begun)
	run.o.Outside(func() { l.names, err = run.r.runtime.Withdraw(ctx, l.image) })
	if errors.Is(err, inventory.ErrChanged) {
		run.o.LastUse.NotWithdrawn(l.ImageID)
		return whyChanged, nil
	}
	return "", err
}

// together is how many images of the group go at once, so that the runtime collects, and
// the disk is measured, once for them: as many as are computed to free at most half of
// what is left to free. The last ones of a run go one by one. Where only their age asks for it, all go
// together.
func together(p image.Plan, group []leaving) int {
	var frees image.Decision
	needed := p.NeedBytes > 0 || p.NeedInodes > 0
	reached := func(need, frees uint64) bool { return need == 0 || 2*frees > need }
	for n, l := range group {
		frees.FreesBytes, frees.FreesInodes = frees.FreesBytes+l.FreesBytes, frees.FreesInodes+l.FreesInodes
		if l.names == nil || needed && reached(p.NeedBytes, frees.FreesBytes) && reached(p.NeedInodes, frees.FreesInodes) {
			return max(n, 1)
		}
	}
	return len(group)
}

// letGo removes images, except for those that the last look finds needed.
func (run *Run) letGo(ctx context.Context, batch []leaving, users func() ([][]string, error), before watermark.Measured) verdict {
	needed, err := run.needed(ctx, batch, users)
	v := goOn
	if err != nil {
		run.putBack(ctx, batch, "")
		for n := 0; n < len(batch) && v == goOn; n++ {
			v = run.notRemoved(ctx, batch[n], err)
		}
		return v
	}
	var goes, gone []leaving
	defer func() { run.putBack(ctx, goes, "the run ended before its turn") }() // what is left of them when it is over early
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
			run.r.unmended = run.r.unmended || err != nil
		}
		if err == nil {
			gone = append(gone, l)
		} else {
			v = run.notRemoved(ctx, l, err)
		}
	}
	if len(gone) > 0 {
		run.measure(ctx, gone, before)
	}
	return v
}

// notRemoved is for an image whose last look, or removal, failed.
func (run *Run) notRemoved(ctx context.Context, l leaving, err error) verdict {
	switch {
	case errors.Is(err, inventory.ErrNotFound):
		if l.names == nil {
			l.attempt.Cancel() // somebody else removed it
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

// askUsers asks the runtime who uses the images of a group whose names are away, and returns
// at once; the answer is in the group's order.
func (run *Run) askUsers(ctx context.Context, group []leaving) (answer func() ([][]string, error)) {
	var names []inventory.Withdrawal
	for _, l := range group {
		if l.names == nil {
			break // it is alone in its batch, and read anew
		}
		names = append(names, l.names)
	}
	var users [][]string
	var g errgroup.Group
	g.Go(func() (err error) {
		if len(names) > 0 {
			users, err = run.r.runtime.Users(ctx, names...)
		}
		return err
	})
	return func() (_ [][]string, err error) {
		run.o.Outside(func() { err = g.Wait() })
		return users, err
	}
}

// needed is the last look: it finds what needs each image after all; "" lets it go. Users is
// the runtime's answer on the group that the batch is the beginning of. One whose names could
// not be taken away is alone in its batch.
func (run *Run) needed(ctx context.Context, batch []leaving, users func() ([][]string, error)) (needed []string, err error) {
	needed = make([]string, len(batch))
	if batch[0].names == nil {
		i, err := run.fresh(ctx, []image.Decision{batch[0].Decision})(0)
		if err == nil {
			needed[0] = run.nowKept(i, batch[0].used)
		}
		return needed, err
	}
	using, err := users()
	if err != nil {
		return nil, fmt.Errorf("look whether they came into use: %w", err)
	}
	for n, l := range batch {
		if needed[n] = run.o.Pods.Keep(l.image, run.o.LastUse.Image(l.ImageID).Arrived); len(using[n]) > 0 {
			needed[n] = "in use by " + using[n][0]
		} else if needed[n] == "" {
			needed[n] = run.usedSince(l.image, l.used)
		}
	}
	return needed, nil
}

// putBack gives images their names back, also when the agent is to end. Why is what the history
// says of them; "" leaves that to the caller.
func (run *Run) putBack(ctx context.Context, group []leaving, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreMost)
	defer cancel()
	for _, l := range group {
		if l.names == nil {
			l.staysFor(why)
			continue
		}
		var err error
		if run.o.Outside(func() { err = l.names.Restore(ctx) }); err != nil {
			l.attempt.Unknown(err.Error())
			run.r.unmended = true
			run.o.Log.Warn("the names of an image could not be put back; trying again", "image", l.ImageID,
				"references", l.image.References, "reason", "its removal was begun and not ended", "error", err)
			continue
		}
		run.o.LastUse.Back(l.ImageID)
		l.staysFor(why)
	}
}
