package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// readAtOnce is how many containers are asked for their end at a time.
const readAtOnce = 8

// observeDead reads what the decision rests on: logs, then containers, then
// pods, so that nothing is without its owner only for having come in between.
func (a *Agent) observeDead(ctx context.Context) (s container.Snapshot, logs container.Logs, err error) {
	if a.cfg.Containers.Logs {
		logs = a.readLogs()
	}
	w, err := a.rt.Workloads(ctx)
	if err != nil {
		return s, logs, err
	}
	a.dead.workloads = w
	s = container.Snapshot{Policy: a.cfg.ContainerPolicy(), Containers: slices.Clone(w.Containers), Sandboxes: slices.Clone(w.Sandboxes)}
	if s.Policy.AgeFrom == container.FromTermination {
		if err := a.readEnds(ctx, s.Containers); err != nil {
			return s, logs, err
		}
	}
	pods, err := a.readPods(ctx)
	a.dead.why = err
	s.Pods, s.PodsKnown, s.StaticPodsKnown = policyPods(pods), err == nil, pods.StaticKnown
	s.ReclaimEnded = a.spaceNeeded()
	a.dead.forgetOld(w, logs, a.wall())
	for i := range s.Containers {
		s.Containers[i].RetryAt = a.dead.failures[s.Containers[i].ID].until
	}
	for i := range s.Sandboxes {
		s.Sandboxes[i].RetryAt = a.dead.failures[s.Sandboxes[i].ID].until
	}
	return s, logs, nil
}

// forgetOld drops what was noted of things that are gone.
func (d *deadBook) forgetOld(w inventory.Workloads, logs container.Logs, now time.Time) {
	there := make(map[string]bool, len(w.Containers)+len(w.Sandboxes)+len(logs.Directories))
	for _, c := range w.Containers {
		there[c.ID] = true
	}
	for id := range d.finished {
		if !there[id] {
			delete(d.finished, id)
		}
	}
	for _, s := range w.Sandboxes {
		there[s.ID] = true
	}
	for _, l := range logs.Directories {
		there[l.Entry] = true
	}
	for id, f := range d.failures {
		// A clock that was set back would make it wait for longer than anybody meant.
		if !there[id] || f.until.Sub(now) > failureMost {
			delete(d.failures, id)
		}
	}
}

// readEnds asks when containers ended of which that is not known yet.
func (a *Agent) readEnds(ctx context.Context, containers []container.Container) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readAtOnce)
	for i := range containers {
		c := &containers[i]
		if c.State != container.StateExited || !a.dead.finished[c.ID].IsZero() {
			continue
		}
		g.Go(func() error {
			_, finished, err := a.rt.ContainerNow(ctx, c.ID)
			if errors.Is(err, inventory.ErrNotFound) {
				return nil // its end is not known, so it stays; it is gone anyway
			}
			c.Finished = finished
			return err
		})
	}
	err := g.Wait()
	for i := range containers {
		c := &containers[i]
		if c.State != container.StateExited {
			continue
		}
		if c.Finished.IsZero() {
			c.Finished = a.dead.finished[c.ID]
		} else {
			a.dead.finished[c.ID] = c.Finished
		}
	}
	return err
}
