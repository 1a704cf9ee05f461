package containerd

import (
	"context"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Workloads lists the CRI's containers and sandboxes.
func (r *Runtime) Workloads(ctx context.Context) (inventory.Workloads, error) {
	containers, sandboxes, err := r.cri.Workloads(ctx)
	return inventory.Workloads{Containers: containers, Sandboxes: sandboxes}, err
}

// ContainerNow reads the current status of one CRI container: see cri.Client. An end is remembered for
// what happens during and after its removal: see readEnds and sendWithEnd.
func (r *Runtime) ContainerNow(ctx context.Context, id string) (container.Status, error) {
	s, err := r.cri.ContainerNow(ctx, id)
	if err == nil && s.State == container.StateExited && !s.Finished.IsZero() {
		r.cache.putEnd(id, s.Finished)
	}
	return s, err
}

// SandboxNow reads the current status of one sandbox: see cri.Client.
func (r *Runtime) SandboxNow(ctx context.Context, id string) (ready bool, containers int, err error) {
	return r.cri.SandboxNow(ctx, id)
}

// Do carries out a step for a container or sandbox: see cri.Client.
func (r *Runtime) Do(ctx context.Context, s container.Step) error { return r.cri.Do(ctx, s) }
