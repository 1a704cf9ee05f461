package containerd

import (
	eventsapi "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/typeurl/v2"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// decode translates an event; ok is false if ebb does not need it.
func decode(e *events.Envelope) (event inventory.Event, ok bool) {
	if e == nil || e.Event == nil || e.Topic == barrierTopic {
		return inventory.Event{}, false
	}
	payload, err := typeurl.UnmarshalAny(e.Event)
	if err != nil {
		// This build does not know the event's type. No topic that ebb handles has such events, and
		// the reconcile covers the others.
		return inventory.Event{}, false
	}
	event, ok = translate(payload)
	event.Namespace, event.At = e.Namespace, e.Timestamp
	return event, ok
}

func translate(payload any) (inventory.Event, bool) {
	switch p := payload.(type) {
	case *eventsapi.ImageCreate:
		return inventory.Event{Kind: inventory.EventImage, Image: p.Name}, true
	case *eventsapi.ImageUpdate:
		return inventory.Event{Kind: inventory.EventImage, Image: p.Name}, true
	case *eventsapi.ImageDelete:
		return inventory.Event{Kind: inventory.EventImage, Image: p.Name}, true
	case *eventsapi.ContainerCreate:
		return inventory.Event{Kind: inventory.EventContainer, Container: p.ID, Image: p.Image, Used: true}, true
	case *eventsapi.ContainerDelete:
		return inventory.Event{Kind: inventory.EventContainer, Container: p.ID}, true
	case *eventsapi.TaskStart:
		return inventory.Event{Kind: inventory.EventTask, Container: p.ContainerID, Used: true}, true
	case *eventsapi.TaskExit:
		// An exec in the container (a probe) has an ID of its own; its exit does not end the
		// container.
		return inventory.Event{Kind: inventory.EventTask, Container: p.ContainerID, Ended: true, Used: true}, p.ID == "" || p.ID == p.ContainerID
	case *eventsapi.TaskDelete:
		return inventory.Event{Kind: inventory.EventTask, Container: p.ContainerID, Ended: true}, p.ID == "" || p.ID == p.ContainerID
	}
	return inventory.Event{}, false
}
