package fake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// workloads is the CRI's side of the fake: sandboxes and containers of pods.
type workloads struct {
	sandboxes  map[string]*container.Sandbox
	containers map[string]*container.Container
	logs       map[string]string // paths of containers' logs, by ID
	hanging    map[string]bool   // IDs whose stop never ends by itself
	failing    map[string]error  // IDs that cannot be removed
	carriedOut []container.Step
	down       error
	late       <-chan struct{} // lists are returned once it is closed
}

func newWorkloads() workloads {
	return workloads{
		sandboxes: map[string]*container.Sandbox{}, containers: map[string]*container.Container{},
		logs: map[string]string{}, hanging: map[string]bool{}, failing: map[string]error{},
	}
}

// AddSandbox adds or replaces a sandbox.
func (r *Runtime) AddSandbox(s container.Sandbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.work.sandboxes[s.ID] = &s
	r.events.add(inventory.Event{Kind: inventory.EventTask, Namespace: CRINamespace, Container: s.ID, Ended: s.NotReady})
}

// AddContainer adds or replaces a container.
func (r *Runtime) AddContainer(c container.Container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.work.containers[c.ID] = &c
	r.events.add(inventory.Event{Kind: inventory.EventTask, Namespace: CRINamespace, Container: c.ID, Ended: c.State == container.StateExited})
}

// SetLogPath sets the path of a container's log.
func (r *Runtime) SetLogPath(id, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.work.logs[id] = path
}

// Exit ends a container now, in containerd and in the CRI.
func (r *Runtime) Exit(id string) { r.exit(id, true) }

// ExitUnseen ends a container in containerd, and leaves it to [Runtime.Exit] to
// end it in the CRI.
func (r *Runtime) ExitUnseen(id string) { r.exit(id, false) }

func (r *Runtime) exit(id string, seen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.work.containers[id]; seen {
		c.State, c.Finished = container.StateExited, r.now()
	}
	r.events.add(inventory.Event{Kind: inventory.EventTask, Namespace: CRINamespace, Container: id, Ended: true})
}

// Hang makes every step for an ID hang until its context ends.
func (r *Runtime) Hang(id string) { r.mu.Lock(); r.work.hanging[id] = true; r.mu.Unlock() }

// FailStep makes steps for an ID fail; nil ends that.
func (r *Runtime) FailStep(id string, err error) {
	r.mu.Lock()
	r.work.failing[id] = err
	r.mu.Unlock()
}

// FailWorkloads makes the CRI's lists fail; nil ends that.
func (r *Runtime) FailWorkloads(err error) { r.mu.Lock(); r.work.down = err; r.mu.Unlock() }

// DelayWorkloads makes the CRI read its lists at once, but return them only when until is closed.
func (r *Runtime) DelayWorkloads(until <-chan struct{}) {
	r.mu.Lock()
	r.work.late = until
	r.mu.Unlock()
}

// Steps returns what Do has done, in order.
func (r *Runtime) Steps() []container.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.work.carriedOut)
}

// Workloads lists the CRI's containers and sandboxes.
func (r *Runtime) Workloads(ctx context.Context) (inventory.Workloads, error) {
	if err := r.begin(ctx); err != nil {
		return inventory.Workloads{}, fmt.Errorf("list CRI containers: %w", err)
	}
	defer r.mu.Unlock()
	if r.work.down != nil {
		return inventory.Workloads{}, fmt.Errorf("list CRI containers: %w", r.work.down)
	}
	var w inventory.Workloads
	for _, c := range r.work.containers {
		listed := *c
		listed.Finished = time.Time{} // the CRI's list does not have it
		w.Containers = append(w.Containers, listed)
	}
	for _, s := range r.work.sandboxes {
		w.Sandboxes = append(w.Sandboxes, *s)
	}
	if late := r.work.late; late != nil {
		r.mu.Unlock()
		select {
		case <-late:
		case <-ctx.Done():
		}
		r.mu.Lock()
	}
	return w, nil
}

// ContainerNow reads one container.
func (r *Runtime) ContainerNow(ctx context.Context, id string) (container.Status, error) {
	if err := r.begin(ctx); err != nil {
		return container.Status{}, fmt.Errorf("container status: %w", err)
	}
	defer r.mu.Unlock()
	c := r.work.containers[id]
	if c == nil {
		return container.Status{}, fmt.Errorf("container status: %s: %w", id, inventory.ErrNotFound)
	}
	return container.Status{State: c.State, Finished: c.Finished, LogPath: r.work.logs[id]}, nil
}

// SandboxNow reads one sandbox.
func (r *Runtime) SandboxNow(ctx context.Context, id string) (ready bool, containers int, err error) {
	if err := r.begin(ctx); err != nil {
		return false, 0, fmt.Errorf("sandbox status: %w", err)
	}
	defer r.mu.Unlock()
	s := r.work.sandboxes[id]
	if s == nil {
		return false, 0, fmt.Errorf("sandbox status: %s: %w", id, inventory.ErrNotFound)
	}
	for _, c := range r.work.containers {
		if c.SandboxID == id {
			containers++
		}
	}
	return !s.NotReady, containers, nil
}

// Do carries out a step; a missing object counts as done. As in reality, removing a sandbox removes
// its containers, running or not.
func (r *Runtime) Do(ctx context.Context, s container.Step) error {
	if err := r.begin(ctx); err != nil {
		return fmt.Errorf("%v: %w", s.Action, err)
	}
	id := s.ContainerID
	if s.Action == container.StopSandbox || s.Action == container.RemoveSandbox {
		id = s.SandboxID
	}
	if id == "" {
		r.mu.Unlock()
		return fmt.Errorf("%v: no ID", s.Action)
	}
	if r.work.hanging[id] {
		r.mu.Unlock()
		<-ctx.Done()
		return fmt.Errorf("%v %s: %w", s.Action, id, ctx.Err())
	}
	defer r.mu.Unlock()
	if err := r.work.failing[id]; err != nil {
		return fmt.Errorf("%v %s: %w", s.Action, id, err)
	}
	r.work.carriedOut = append(r.work.carriedOut, s)
	switch s.Action {
	case container.StopContainer:
		if c := r.work.containers[id]; c != nil {
			c.State, c.Finished = container.StateExited, r.now()
		}
	case container.RemoveContainer:
		delete(r.work.containers, id)
	case container.StopSandbox:
		if sb := r.work.sandboxes[id]; sb != nil {
			sb.NotReady = true
		}
		r.events.add(inventory.Event{Kind: inventory.EventTask, Namespace: CRINamespace, Container: id, Ended: true})
	case container.RemoveSandbox:
		delete(r.work.sandboxes, id)
		for other, c := range r.work.containers {
			if c.SandboxID == id {
				delete(r.work.containers, other)
			}
		}
	}
	r.events.add(inventory.Event{Kind: inventory.EventContainer, Namespace: CRINamespace, Container: id})
	return nil
}
