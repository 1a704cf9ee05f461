package kube

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// nodeEvents is where Events about Nodes are, which are in no namespace.
const nodeEvents = "/api/v1/namespaces/default/events"

// reporter is who tells of an Event.
const reporter = "ebb-agent"

// NodeEvent is an Event about this node.
type NodeEvent struct {
	Name            string // of the Event: no other may have it
	Again           bool   // there is one of that name, which is brought up to date
	Warning         bool   // else it is Normal
	Reason, Message string
	Count           int // how often it was so
	First, Last     time.Time
}

// PostEvent creates an Event about this node, or brings one up to date. It asks once, and a
// second time if that one has expired.
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
		return nil // by an attempt whose answer got lost
	}
	return err
}

// Temporary reports whether a request that failed may succeed later, and after how long the
// server wants to be asked again; 0 if it does not say.
func Temporary(err error) (after time.Duration, ok bool) {
	var answer *fault.Answer
	if !errors.As(err, &answer) {
		return 0, errors.Is(err, ErrUnavailable)
	}
	return answer.RetryAfter, answer.Code == http.StatusTooManyRequests || answer.Code >= 500
}

// wireEvent is an Event as the kubelet writes its own: the UID of the Node is its name, by
// which "kubectl describe node" finds it.
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
