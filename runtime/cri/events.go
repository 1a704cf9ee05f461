package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Events sends what the runtime tells of containers and sandboxes that have ended
// or gone, once it has noted it itself, until ctx is done or the stream breaks. The
// error is ErrUnimplemented of a runtime without GetContainerEvents (containerd
// before 1.7). Nothing tells from when on events come: use it beside another way
// to notice the same.
func (c *Client) Events(ctx context.Context, namespace string, out chan<- inventory.Event) error {
	stream, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return translate("container events", err)
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return translate("container events", err)
		}
		event := inventory.Event{Namespace: namespace, Container: e.GetContainerId()}
		switch e.GetContainerEventType() {
		case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
			event.Kind, event.Ended = inventory.EventTask, true
		case runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
			event.Kind = inventory.EventContainer
		default:
			continue // containerd tells of these as soon
		}
		select {
		case out <- event:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
