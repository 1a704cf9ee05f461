package containerd

import (
	"context"
	"slices"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"

	"github.com/ebb-agent/ebb/policy/container"
)

// endTime bounds the questions about ends in one reading: a shim that hangs must not
// hold it up. Who gets no answer counts as not ended.
const endTime = 2 * time.Second

// readEnds learns which containers have ended, and when. The CRI tells of its own, and
// each is asked about once. The others' tasks are listed, which asks every shim of the
// namespace, and only where one of them is made from an image of the CRI's: on most nodes
// nowhere. One without a task may not have begun. Neither is told of a sandbox, whose
// image stays anyway.
func (r *Runtime) readEnds(ctx context.Context, reading *reading) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	for i := range reading.spaces {
		s := &reading.spaces[i]
		var others []*containerRecord
		for j := range s.containers {
			c := &s.containers[j]
			state, told := reading.criState[c.id]
			switch {
			case s.name != criNamespace || !told && c.labels[labelKind] != kindSandbox:
				others = append(others, c)
			case state == container.StateExited:
				c.ended = r.criEnd(ctx, c.id)
			}
		}
		if reading.anyOfImages(s, others) {
			ends := r.taskEnds(inNamespace(ctx, s))
			for _, c := range others {
				c.ended = ends[c.id]
			}
		}
	}
	r.cache.sweepEnds(reading.criState)
}

// anyOfImages is whether one of a namespace's containers is made from an image of the CRI's.
func (r *reading) anyOfImages(s *space, list []*containerRecord) bool {
	if len(list) == 0 {
		return false // nor need it be worked out which images there are
	}
	use, parents, names := r.usage(r.entries()), s.parents(), s.byName()
	return slices.ContainsFunc(list, func(c *containerRecord) bool {
		return use.ids[use.imageOf(s.name, *c, names, parents[c.snapshotter+"/"+c.snapKey])]
	})
}

const (
	labelKind   = "io.cri-containerd.kind"
	kindSandbox = "sandbox"
)

// criEnd is when a container of the CRI's ended, which it does once.
func (r *Runtime) criEnd(ctx context.Context, id string) time.Time {
	if at, ok := r.cache.end(id); ok {
		return at
	}
	state, at, err := r.cri.ContainerNow(ctx, id)
	if err != nil || state != container.StateExited || at.IsZero() {
		return time.Time{}
	}
	r.cache.putEnd(id, at)
	return at
}

// taskEnds is when tasks of a namespace ended that have.
func (r *Runtime) taskEnds(ctx context.Context) map[string]time.Time {
	list, err := r.client.TaskService().List(ctx, &tasksapi.ListTasksRequest{})
	if err != nil {
		return nil
	}
	ends := map[string]time.Time{}
	for _, t := range list.GetTasks() {
		if at := t.GetExitedAt(); t.GetStatus() == task.Status_STOPPED && at.IsValid() && at.GetSeconds() > 0 {
			ends[t.GetID()] = at.AsTime()
		}
	}
	return ends
}

func (c *cache) end(id string) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.ends[id]
	return at, ok
}

func (c *cache) putEnd(id string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends == nil {
		c.ends = map[string]time.Time{}
	}
	c.ends[id] = at
}

// sweepEnds drops what the CRI does not list any more.
func (c *cache) sweepEnds(listed map[string]container.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.ends {
		if _, ok := listed[id]; !ok {
			delete(c.ends, id)
		}
	}
}
