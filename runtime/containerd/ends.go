package containerd

import (
	"context"
	"slices"
	"sync"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// endTime bounds the questions about ends in one reading: a shim that hangs must not
// hold it up. A container without an answer has not ended, but is no use of its image just now either: the
// image would be the latest used for good. The next answer tells.
const endTime = 2 * time.Second

// readEnds learns which containers have ended, and when. The CRI tells of its own, and
// each is asked about once. The others' tasks are listed, which asks every shim of the
// namespace, and only where one of them is made from an image of the CRI's: on most nodes
// nowhere. One without a task has ended if its begin was heard; otherwise it may not have
// begun. Neither is known of a sandbox, whose image stays anyway.
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
				c.unanswered = c.ended.IsZero()
			}
		}
		if reading.anyOfImages(s, others) {
			tasks, err := r.taskEnds(inNamespace(ctx, s))
			for _, c := range others {
				end, there := tasks[c.id]
				if !there && err == nil {
					end = r.endHeard(inNamespace(ctx, s), s.name, c.id)
				}
				c.ended, c.unanswered = end, err != nil
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
	s, err := r.cri.ContainerNow(ctx, id)
	if err != nil || s.State != container.StateExited || s.Finished.IsZero() {
		return time.Time{}
	}
	r.cache.putEnd(id, s.Finished)
	return s.Finished
}

// taskEnds has the tasks of a namespace, and when each ended; the zero time if it has not.
func (r *Runtime) taskEnds(ctx context.Context) (map[string]time.Time, error) {
	list, err := r.client.TaskService().List(ctx, &tasksapi.ListTasksRequest{})
	if err != nil {
		return nil, wrap("list tasks", err)
	}
	ends := make(map[string]time.Time, len(list.GetTasks()))
	for _, t := range list.GetTasks() {
		ends[t.GetID()] = time.Time{}
		if at := t.GetExitedAt(); t.GetStatus() == task.Status_STOPPED && at.IsValid() && at.GetSeconds() > 0 {
			ends[t.GetID()] = at.AsTime()
		}
	}
	return ends, nil
}

// endHeard is when a container's task ended that is not listed; the zero time if nobody knows.
// A list leaves out whom a hanging shim keeps, too, so that it takes an answer of its own.
func (r *Runtime) endHeard(ctx context.Context, namespace, id string) time.Time {
	last := r.exits.of(namespace, id)
	if !last.ended.IsZero() || last.begins == 0 {
		return last.ended
	}
	_, err := r.client.TaskService().Get(ctx, &tasksapi.GetRequest{ContainerID: id})
	if !errdefs.IsNotFound(errgrpc.ToNative(err)) {
		return time.Time{}
	}
	return r.exits.missed(namespace, id, exit{time.Now(), last.begins})
}

// exits are the ends of tasks that [Runtime.Watch] has heard of, for containers whose task was
// deleted since: nobody else can tell that they have begun, and ended. They count as long as
// no event was lost on the way here. Containerd itself may lose those of a task that is
// deleted while it runs, which ends its shim before that has sent them: then it ended when it
// is noticed.
type exits struct {
	mu   sync.Mutex
	last map[string]exit // by namespace/ID
}

// exit is the latest task of a container.
type exit struct {
	ended  time.Time // zero: not, as far as was heard
	begins uint64    // tasks of the container that were heard to begin
}

// heard takes in an event. Those of the CRI are of containers that it is asked about.
func (x *exits) heard(e inventory.Event) {
	if e.Container == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	name := e.Namespace + "/" + e.Container
	last, known := x.last[name]
	switch {
	case e.Kind != inventory.EventTask: // the container is new, or is there no more
		delete(x.last, name)
		return
	case !e.Ended:
		last = exit{begins: last.begins + 1}
	case e.Used:
		last.ended = e.At
	case known && last.ended.IsZero(): // deleted, and its exit was not heard
		last.ended = e.At
	default:
		return
	}
	if x.last == nil {
		x.last = make(map[string]exit)
	}
	x.last[name] = last
}

// missed notes the end of a task of which the begin alone was heard, unless more was heard
// meanwhile, and returns when it ended.
func (x *exits) missed(namespace, id string, e exit) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := namespace + "/" + id
	if last := x.last[name]; last.begins == e.begins && last.ended.IsZero() {
		x.last[name] = e
	}
	return x.last[name].ended
}

// lose forgets all: a task may begin unheard.
func (x *exits) lose() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.last)
}

// of returns the zero value for a container of which nothing was heard.
func (x *exits) of(namespace, id string) exit {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last[namespace+"/"+id]
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
