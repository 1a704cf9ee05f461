package workloads

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// readAtOnce is for how many containers the end is read at a time.
const readAtOnce = 8

// observe reads what the decision rests on: logs, then containers, then pods. In this order,
// nothing looks orphaned only because it appeared between two readings.
func (w *Workloads) observe(ctx context.Context, rt Runtime) (s container.Snapshot, logs container.Logs, pods kube.Pods, err error) {
	if w.Config.Containers.Logs {
		logs = w.readLogs()
	}
	var here inventory.Workloads
	w.Outside(func() { here, err = rt.Workloads(ctx) })
	if err != nil {
		return s, logs, pods, err
	}
	w.seen.Workloads = here
	w.bookListed(here)
	s = container.Snapshot{Policy: w.Config.ContainerPolicy(), Containers: slices.Clone(here.Containers), Sandboxes: slices.Clone(here.Sandboxes)}
	if s.Policy.AgeFrom == container.FromTermination {
		if err := w.readEnds(ctx, rt, s.Containers); err != nil {
			return s, logs, pods, err
		}
	}
	pods, err = w.Pods.Read(ctx)
	w.seen.podsUnknown = err
	s.Pods, s.PodsKnown, s.StaticPodsKnown = policyPods(pods), err == nil, pods.StaticKnown
	w.forgetOld(logs)
	for i := range s.Containers {
		s.Containers[i].RetryAt = w.gate.Until(s.Containers[i].ID)
	}
	for i := range s.Sandboxes {
		s.Sandboxes[i].RetryAt = w.gate.Until(s.Sandboxes[i].ID)
	}
	return s, logs, pods, nil
}

// policyPods converts pods for the policy for containers.
func policyPods(pods kube.Pods) []container.Pod {
	list := make([]container.Pod, 0, len(pods.List))
	for _, p := range pods.List {
		list = append(list, container.Pod{UID: p.UID, Deleting: p.Deleting, Ended: p.Ended, Evicted: p.Evicted})
	}
	return list
}

// forgetOld drops what is kept about things that are gone.
func (w *Workloads) forgetOld(logs container.Logs) {
	here := &w.seen
	there := make(map[string]bool, len(here.Containers)+len(here.Sandboxes)+len(logs.Directories))
	for _, c := range here.Containers {
		there[c.ID] = true
	}
	for id := range here.finished {
		if !there[id] {
			delete(here.finished, id)
		}
	}
	for _, s := range here.Sandboxes {
		there[s.ID] = true
	}
	for _, l := range logs.Directories {
		there[l.Entry] = true
	}
	w.gate.Keep(func(id string) bool { return there[id] })
	w.gate.ClockSet(w.Wall())
}

// readEnds reads when exited containers ended, if that is not known yet.
func (w *Workloads) readEnds(ctx context.Context, rt Runtime, containers []container.Container) (err error) {
	var unknown []*container.Container
	for i := range containers {
		c := &containers[i]
		if c.State != container.StateExited {
			continue
		}
		if c.Finished = w.seen.finished[c.ID]; c.Finished.IsZero() {
			unknown = append(unknown, c)
		}
	}
	w.Outside(func() { err = askEnds(ctx, rt, unknown) })
	for _, c := range unknown {
		if !c.Finished.IsZero() {
			w.seen.finished[c.ID] = c.Finished
		}
	}
	return err
}

// askEnds asks the runtime, readAtOnce containers at a time.
func askEnds(ctx context.Context, rt Runtime, containers []*container.Container) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readAtOnce)
	for _, c := range containers {
		g.Go(func() error {
			now, err := rt.ContainerNow(ctx, c.ID)
			if errors.Is(err, inventory.ErrNotFound) {
				return nil // its end is not known, so it stays; it is gone anyway
			}
			c.Finished = now.Finished
			return err
		})
	}
	return g.Wait()
}
