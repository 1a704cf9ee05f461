package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/policy/container"
)

// stopTimeout bounds a call of [Client.Do]. The container or sandbox is not running as far as ebb
// knows, but a network plugin takes its time to tear down a sandbox's network.
const stopTimeout = 30 * time.Second

// stopGrace is how long a container whose state is unknown may take to end by
// itself (the kubelet's minimum, minimumGracePeriodInSeconds).
const stopGrace = 2 * time.Second

// sourceAnnotation is the annotation in which the kubelet writes a pod's source on its sandbox:
// "api", or "file" or "http" for static pods.
const sourceAnnotation = "kubernetes.io/config.source"

var errNoID = errors.New("not an ID")

// maxID bounds the length of an ID. Runtimes use 64 hex digits.
const maxID = 128

// Workloads returns all containers and sandboxes in any state. Sandboxes are read first: for a
// container that is created in between, the result has its sandbox, unless that is new, too. The
// containers have no end times: see [Client.ContainerNow].
func (c *Client) Workloads(ctx context.Context) ([]container.Container, []container.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pods, err := c.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{}, grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return nil, nil, translate("list CRI sandboxes", err)
	}
	list, err := c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{}, grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return nil, nil, translate("list CRI containers", err)
	}
	sandboxes := make([]container.Sandbox, 0, len(pods.GetItems()))
	for _, s := range pods.GetItems() {
		sandboxes = append(sandboxes, sandboxFromAPI(s))
	}
	containers := make([]container.Container, 0, len(list.GetContainers()))
	for _, ct := range list.GetContainers() {
		containers = append(containers, containerFromAPI(ct))
	}
	return containers, sandboxes, nil
}

func sandboxFromAPI(s *runtimeapi.PodSandbox) container.Sandbox {
	pod, _ := container.Identify(s.GetLabels())
	source, known := s.GetAnnotations()[sourceAnnotation]
	return container.Sandbox{
		ID: s.GetId(), Pod: pod, Attempt: s.GetMetadata().GetAttempt(), Created: when(s.GetCreatedAt()),
		NotReady: s.GetState() == runtimeapi.PodSandboxState_SANDBOX_NOTREADY,
		Static:   known && source != "api",
	}
}

func containerFromAPI(ct *runtimeapi.Container) container.Container {
	pod, name := container.Identify(ct.GetLabels())
	return container.Container{
		ID: ct.GetId(), SandboxID: ct.GetPodSandboxId(), Pod: pod, Name: name,
		Attempt: ct.GetMetadata().GetAttempt(), State: stateFromAPI(ct.GetState()), Created: when(ct.GetCreatedAt()),
	}
}

// stateFromAPI returns 0 for a state that this version of the CRI does not have. ebb leaves such a
// container alone.
func stateFromAPI(s runtimeapi.ContainerState) container.State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return container.StateCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return container.StateRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return container.StateExited
	case runtimeapi.ContainerState_CONTAINER_UNKNOWN:
		return container.StateUnknown
	}
	return 0
}

// when reads a time of the CRI: nanoseconds since 1970, 0 for none.
func when(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// ContainerNow reads one container's current status; inventory.ErrNotFound if it is gone.
func (c *Client) ContainerNow(ctx context.Context, id string) (container.Status, error) {
	if !validID(id) {
		return container.Status{}, fmt.Errorf("container status: %q: %w", id, errNoID)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return container.Status{}, translate("container status", err)
	}
	s := resp.GetStatus()
	return container.Status{State: stateFromAPI(s.GetState()), Finished: when(s.GetFinishedAt()), LogPath: s.GetLogPath()}, nil
}

// SandboxNow reads one sandbox: whether it is ready, and how many containers it has, in any state;
// inventory.ErrNotFound if it is gone.
func (c *Client) SandboxNow(ctx context.Context, id string) (ready bool, containers int, err error) {
	if !validID(id) {
		return false, 0, fmt.Errorf("sandbox status: %q: %w", id, errNoID)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return false, 0, translate("sandbox status", err)
	}
	list, err := c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{PodSandboxId: id},
	}, grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return false, 0, translate("list CRI containers", err)
	}
	return resp.GetStatus().GetState() == runtimeapi.PodSandboxState_SANDBOX_READY, len(list.GetContainers()), nil
}

// Do executes one step. A missing container or sandbox counts as done. A call that hangs ends with
// an error after stopTimeout; whether the runtime executed it is unknown then.
func (c *Client) Do(ctx context.Context, s container.Step) error {
	id := s.ContainerID
	if s.Action == container.StopSandbox || s.Action == container.RemoveSandbox {
		id = s.SandboxID
	}
	if !validID(id) {
		return fmt.Errorf("%v: %q: %w", s.Action, id, errNoID)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var err error
	switch s.Action {
	case container.StopContainer:
		_, err = c.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: int64(stopGrace / time.Second)})
	case container.RemoveContainer:
		_, err = c.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	case container.StopSandbox:
		_, err = c.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	case container.RemoveSandbox:
		_, err = c.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	default:
		return fmt.Errorf("%v: unknown", s.Action)
	}
	if err = translate(fmt.Sprintf("%v %s", s.Action, id), err); isNotFound(err) {
		return nil
	}
	return err
}

// validID reports whether id can be an ID. In a filter, an empty one would select everything.
func validID(id string) bool { return id != "" && len(id) <= maxID }
