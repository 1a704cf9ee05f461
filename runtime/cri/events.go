package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Events sends an event for each container or sandbox that has ended or was deleted, once the
// runtime has recorded that itself, until ctx is done, the stream breaks, or send fails. The events carry
// namespace. The error is ErrUnimplemented for a runtime without GetContainerEvents (containerd
// before 1.7). The runtime does not report when the stream begins, so use Events beside another
// source of the same changes.
func (c *Client) Events(ctx context.Context, namespace string, send func(inventory.Event) error) error {
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
			continue // containerd's own events come as early
		}
		if err := send(event); err != nil {
			return err
		}
	}
}
