package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// check compares the node and the agent with the oracle after step n.
func (d *driver) check(ctx context.Context, n int) error {
	asked := time.Now()
	have, err := d.present(ctx)
	if err != nil {
		return err
	}
	d.oracle.Present(have, asked)
	if n%5 == 0 && !d.oracle.Excused(time.Now()) {
		d.checkLastUse(ctx, have)
	}
	if n%20 != 0 {
		return nil
	}
	if err := d.countRuntime(ctx); err != nil {
		return err
	}
	return d.checkRuns(ctx)
}

func (d *driver) checkLastUse(ctx context.Context, have []string) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Second) // do not hold up the next steps
	defer cancel()
	e, err := d.explained(ctx)
	if err != nil {
		return // readiness shows it
	}
	for _, i := range e.Images {
		if !slices.Contains(have, i.ID) {
			continue
		}
		var used time.Time
		if i.LastUsed != nil { // by a clock that may have been set
			used = i.LastUsed.Add(-d.behind)
		}
		d.oracle.LastUse(i.ID, used, asked, fmt.Sprintf("%s, %s, %s, used by %v", i.References, i.Reason, i.Detail, i.UsedBy))
	}
}

// checkRuns runs a listed image.
func (d *driver) checkRuns(ctx context.Context) error {
	p, err := d.there(ctx)
	if p == nil {
		return err
	}
	return d.checkRun(ctx, p)
}

// checkAllRun runs each image that is left.
func (d *driver) checkAllRun(ctx context.Context) error {
	have, err := d.present(ctx)
	for _, p := range d.pool {
		if slices.Contains(have, p.id) {
			err = errors.Join(err, d.checkRun(ctx, p))
		}
	}
	return err
}

// checkRun runs an image. It is no violation if the image is removed at that moment; the CRI may list it a
// little longer.
func (d *driver) checkRun(ctx context.Context, p *pulled) error {
	var failed error
	goes := func(context.Context) (bool, error) { // a run that is slow is not cut off
		if failed = d.use(ctx, p); failed == nil || full(failed) {
			return true, nil
		}
		have, err := d.present(ctx)
		return !slices.Contains(have, p.id), err
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Second, true, goes)
	if wait.Interrupted(err) && ctx.Err() == nil {
		d.oracle.CannotRun(p.id, failed, time.Now())
		return nil
	}
	return err
}
