package reclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/lastuse"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// whyChanged is the reason for which an image stays that has changed since the plan.
const whyChanged = "it has changed since the plan was made"

// fresh reads the images of a plan again, all in one call. If that call fails, the returned function
// reads each image alone, so that only the image at fault is blamed.
func (run *Run) fresh(ctx context.Context, plan []image.Decision) func(n int) (inventory.Image, error) {
	checked, err := run.check(ctx, plan)
	alone := err != nil && len(plan) > 1 && !errors.Is(err, inventory.ErrUnavailable)
	return func(n int) (inventory.Image, error) {
		if alone {
			checked, err = run.check(ctx, plan[n:n+1])
		}
		i, there := checked[plan[n].ImageID]
		if err == nil && !there {
			return i, inventory.ErrNotFound
		}
		return i, err
	}
}

// check reads images again. It repeats the reading while one is missing whose names were restored a
// moment ago.
func (run *Run) check(ctx context.Context, plan []image.Decision) (map[string]inventory.Image, error) {
	ids := make([]string, len(plan))
	for n, d := range plan {
		ids[n] = d.ImageID
	}
	for {
		var checked map[string]inventory.Image
		var err error
		if run.o.Outside(func() { checked, err = run.r.runtime.Check(ctx, ids...) }); err != nil {
			return nil, fmt.Errorf("check before removal: %w", err)
		}
		missing := func(id string) bool { return checked[id].ID == "" && slices.Contains(ids, id) }
		if !run.o.LastUse.Late(missing) || !run.o.Sleep(ctx, lastuse.ListedTick) {
			return checked, nil
		}
	}
}

// nowKept returns why an image must be kept, by a reading that is newer than the plan; "" if it may be
// removed. It uses the pods that were read last. used is the last use that the plan knew.
func (run *Run) nowKept(i inventory.Image, used time.Time) string {
	switch {
	case len(i.UsedBy) > 0:
		return "in use by " + i.UsedBy[0]
	case i.Pinned:
		return "pinned by the runtime"
	case i.Sandbox:
		return "the sandbox image"
	case run.o.LastUse.Changed(i):
		return whyChanged
	}
	if rule := run.o.Keep.Match(i.References); rule != "" {
		return "kept by rule " + rule
	}
	if why := run.o.Pods.Keep(i, run.o.LastUse.Image(i.ID).Arrived); why != "" {
		return why
	}
	return run.usedSince(i, used)
}

// usedSince returns why an image counts as used after the last use that the plan knew; "" if it does
// not. It looks at the record, because an event or a harvest can have added a use since, and then asks
// the kernel.
func (run *Run) usedSince(i inventory.Image, used time.Time) string {
	if run.o.LastUse.Image(i.ID).LastUsed.After(used) {
		return "used since the plan was made"
	}
	return run.o.LastUse.UsedSince(i)
}
