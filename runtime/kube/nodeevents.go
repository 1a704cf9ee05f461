package kube

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// nodeEvents is the path of Events about Nodes. A Node has no namespace, so its Events are in
// default.
const nodeEvents = "/api/v1/namespaces/default/events"

// reporter is the component that reports the Events.
const reporter = "ebb-agent"

// NodeEvent is an Event about this node.
type NodeEvent struct {
	Name            string // of the Event; unique
	Again           bool   // update the existing Event of that name
	Warning         bool   // else it is Normal
	Reason, Message string
	Count           int // number of occurrences
	First, Last     time.Time
}

// PostEvent creates an Event about this node, or updates one if e.Again is set. It sends one
// request, and a second one if the Event to update has expired.
func (s *APIServer) PostEvent(ctx context.Context, e NodeEvent) error {
	if e.Again {
		err := s.client.send(ctx, http.MethodPatch, nodeEvents+"/"+e.Name, "application/merge-patch+json", map[string]any{
			"count": e.Count, "lastTimestamp": e.Last.UTC().Format(time.RFC3339), "message": e.Message,
		})
		if answer := new(fault.Answer); !errors.As(err, &answer) || answer.Code != http.StatusNotFound {
			return err
		}
	}
	err := s.client.send(ctx, http.MethodPost, nodeEvents, "application/json", s.wireEvent(e))
	if answer := new(fault.Answer); errors.As(err, &answer) && answer.Status.Reason == "AlreadyExists" {
		return nil // created by an attempt whose response was lost
	}
	return err
}

// Temporary reports whether a failed request may succeed later. after is how long the server asks
// to wait, or 0 if it names no time.
func Temporary(err error) (after time.Duration, ok bool) {
	var answer *fault.Answer
	if !errors.As(err, &answer) {
		return 0, errors.Is(err, ErrUnavailable)
	}
	return answer.RetryAfter, answer.Code == http.StatusTooManyRequests || answer.Code >= 500
}

// wireEvent returns an Event in the form of the kubelet's own: the UID of the Node is the Node's
// name, by which "kubectl describe node" finds the Event.
func (s *APIServer) wireEvent(e NodeEvent) any {
	kind := "Normal"
	if e.Warning {
		kind = "Warning"
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata":           map[string]string{"name": e.Name, "namespace": "default"},
		"involvedObject":     map[string]string{"apiVersion": "v1", "kind": "Node", "name": s.node, "uid": s.node},
		"type":               kind,
		"reason":             e.Reason,
		"message":            e.Message,
		"count":              e.Count,
		"firstTimestamp":     e.First.UTC().Format(time.RFC3339),
		"lastTimestamp":      e.Last.UTC().Format(time.RFC3339),
		"source":             map[string]string{"component": reporter, "host": s.node},
		"reportingComponent": reporter,
		"reportingInstance":  s.node,
	}
}
