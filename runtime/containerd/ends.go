package containerd

import (
	"context"
	"errors"
	"maps"
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

// endTime bounds the calls about ends in one reading, so that a hanging shim does not delay it. A
// container without an answer has not ended, but does not count as using its image now, either:
// otherwise the image would stay the latest used while the shim hangs. The next answer corrects it.
const endTime = 2 * time.Second

// readEnds finds out which containers have ended, and when. The CRI lists the states of its own
// containers, and the end of each is read once. The tasks of all other containers are listed. That
// calls every shim of the namespace, so it is done only if one of those containers is made from a
// CRI image, which is rare. A container without a task has ended if ebb received the start of its
// task; otherwise it may not have started. Sandboxes are left out: their image is kept anyway. A
// container of the CRI that the CRI does not list, and that has no task, is being made or removed: its
// end is the one read before, also by ContainerNow, or there is no answer.
func (r *Runtime) readEnds(ctx context.Context, reading *reading) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	for i := range reading.spaces {
		s := &reading.spaces[i]
		var others []*containerRecord
		for j := range s.containers {
			c := &s.containers[j]
			state, listed := reading.criState[c.id]
			switch {
			case s.name != criNamespace || !listed && c.labels[labelKind] != criKindSandbox:
				if end, known := r.cache.end(c.id); known && s.name == criNamespace {
					c.ended = end
					continue
				}
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
				problem := err
				if !there && err == nil {
					end, problem = r.unlistedEnd(inNamespace(ctx, s), s.name, c.id)
				}
				if errors.Is(problem, errNoTask) && c.labels[labelKind] != criKindContainer {
					problem = nil
				}
				c.ended, c.unanswered = end, problem != nil
			}
		}
	}
	r.cache.sweepEnds(reading.spaces)
}

// errNoTask: a container has no task, and ebb has received no start of one.
var errNoTask = errors.New("no task")

// anyOfImages reports whether one of a namespace's containers is made from a CRI image.
func (r *reading) anyOfImages(s *space, list []*containerRecord) bool {
	if len(list) == 0 {
		return false // skips computing the images
	}
	use, parents, names := r.usage(r.entries()), s.parents(), s.byName()
	return slices.ContainsFunc(list, func(c *containerRecord) bool {
		return use.ids[use.imageOf(s.name, *c, names, parents[c.snapshotter+"/"+c.snapKey])]
	})
}

const (
	labelKind        = "io.cri-containerd.kind"
	criKindSandbox   = "sandbox"
	criKindContainer = "container"
)

// criEnd returns when a CRI container ended, or the zero time if unknown. A container ends only
// once, so the answer is cached.
func (r *Runtime) criEnd(ctx context.Context, id string) time.Time {
	if at, ok := r.cache.end(id); ok {
		return at
	}
	s, err := r.ContainerNow(ctx, id)
	if err != nil || s.State != container.StateExited {
		return time.Time{}
	}
	return s.Finished
}

// taskEnds returns the tasks of a namespace whose shims answered, and when each ended; the zero time if it
// has not.
func (r *Runtime) taskEnds(ctx context.Context) (map[string]time.Time, error) {
	list, err := r.client.TaskService().List(ctx, &tasksapi.ListTasksRequest{})
	if err != nil {
		return nil, wrap("list tasks", err)
	}
	ends := make(map[string]time.Time, len(list.GetTasks()))
	for _, t := range list.GetTasks() {
		if t.GetStatus() != task.Status_UNKNOWN {
			ends[t.GetID()] = endOf(t)
		}
	}
	return ends, nil
}

func endOf(t *task.Process) time.Time {
	if at := t.GetExitedAt(); t.GetStatus() == task.Status_STOPPED && at.IsValid() && at.GetSeconds() > 0 {
		return at.AsTime()
	}
	return time.Time{}
}

// unlistedEnd returns when the task of a container ended that is not listed; the zero time if it has not.
// The error is errNoTask if the container has had no task. containerd omits tasks whose shim does not
// answer in time, or lists them with an unknown status, so that is confirmed by a call of its own.
func (r *Runtime) unlistedEnd(ctx context.Context, namespace, id string) (time.Time, error) {
	last := r.exits.of(namespace, id)
	if !last.ended.IsZero() {
		return last.ended, nil
	}
	t, err := r.client.TaskService().Get(ctx, &tasksapi.GetRequest{ContainerID: id})
	switch {
	case err == nil && t.GetProcess().GetStatus() == task.Status_UNKNOWN:
		return time.Time{}, errors.New("get task: its shim does not answer")
	case err == nil:
		return endOf(t.GetProcess()), nil
	case !errdefs.IsNotFound(errgrpc.ToNative(err)):
		return time.Time{}, wrap("get task", err)
	case last.begins == 0:
		return time.Time{}, errNoTask
	}
	return r.exits.missed(namespace, id, exit{time.Now(), last.begins}), nil
}

// exits are the ends of tasks that [Runtime.Watch] has received, for containers whose task has been
// deleted since: nothing else shows that those started and ended. They are valid as long as no
// event was lost on the way to ebb (see lose). containerd itself may lose the events of a task that
// is deleted while it runs, because that ends its shim before the shim has sent them. Such a task
// counts as ended when ebb notices.
type exits struct {
	mu   sync.Mutex
	last map[string]exit // by namespace/ID
}

// exit is the latest task of a container.
type exit struct {
	ended  time.Time // zero: no end was received
	begins uint64    // how many starts of the container's tasks were received
}

// heard records an event of containerd. Events of the CRI are not recorded: the ends of its
// containers are read from the CRI.
func (x *exits) heard(e inventory.Event) {
	if e.Container == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	name := e.Namespace + "/" + e.Container
	last, known := x.last[name]
	switch {
	case e.Kind != inventory.EventTask: // the container was created or deleted
		delete(x.last, name)
		return
	case !e.Ended:
		last = exit{begins: last.begins + 1}
	case e.Used:
		last.ended = e.At
	case known && last.ended.IsZero(): // deleted, and its exit was not received
		last.ended = e.At
	default:
		return
	}
	if x.last == nil {
		x.last = make(map[string]exit)
	}
	x.last[name] = last
}

// missed records the end of a task of which only the start was received, unless more events of it
// came in the meantime. It returns when the task ended.
func (x *exits) missed(namespace, id string, e exit) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := namespace + "/" + id
	if last := x.last[name]; last.begins == e.begins && last.ended.IsZero() {
		x.last[name] = e
	}
	return x.last[name].ended
}

// lose forgets everything, because a task may start without an event.
func (x *exits) lose() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.last)
}

// of returns the latest task of a container, or the zero value if no event of it was received.
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

// sweepEnds drops containers that containerd no longer lists.
func (c *cache) sweepEnds(spaces []space) {
	listed := make(map[string]bool)
	for _, s := range spaces {
		for _, one := range s.containers {
			listed[one.id] = listed[one.id] || s.name == criNamespace
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.ends, func(id string, _ time.Time) bool { return !listed[id] })
}
