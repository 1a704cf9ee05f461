package metadata

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

// Notice is what people are told about an object.
type Notice struct {
	Object  gc.Coordinates // Resource is not needed
	Type    string         // "Warning" or "Normal"; default Warning
	Reason  string         // one word, for machines
	Action  string         // what was done or tried; default Reason
	Message string
}

// Bounds of the fields of an event (k8s.io/kubernetes/pkg/apis/core/validation).
const (
	maxWord    = 128
	maxMessage = 1024
)

// Warn creates an event about an object, in its namespace or in "default".
func (c *Client) Warn(ctx context.Context, n Notice) error {
	in := n.Object.Namespace
	if in == "" {
		in = "default"
	}
	path, err := objectPath(gc.Coordinates{APIVersion: "events.k8s.io/v1", Resource: "namespaces", Name: in}, false)
	if err != nil {
		return fmt.Errorf("create event: %w", err)
	}
	data, err := json.Marshal(n.event(in, time.Now()))
	if err != nil {
		return fmt.Errorf("create event: %w", err)
	}
	q := request{method: http.MethodPost, path: path + "/events", query: "fieldManager=" + name,
		accept: acceptPartial, body: data, contentType: mediaJSON}
	a, err := c.ask(ctx, q)
	if err != nil {
		return fmt.Errorf("create event: %w", err)
	}
	if a.code/100 != 2 {
		return fmt.Errorf("create event: %w", q.refused(a))
	}
	return nil
}

func (n *Notice) event(in string, now time.Time) map[string]any {
	or := func(s, d string) string {
		if s == "" {
			return d
		}
		return s
	}
	instance := name
	if host, err := os.Hostname(); err == nil {
		instance += "-" + host
	}
	o := n.Object
	return map[string]any{
		"apiVersion": "events.k8s.io/v1", "kind": "Event",
		"metadata":            map[string]any{"generateName": name + "-", "namespace": in},
		"eventTime":           now.UTC().Format("2006-01-02T15:04:05.000000Z"),
		"reportingController": name, "reportingInstance": cut(instance, maxWord),
		"type": or(n.Type, "Warning"), "reason": cut(n.Reason, maxWord), "action": cut(or(n.Action, n.Reason), maxWord),
		"note": cut(n.Message, maxMessage),
		"regarding": map[string]any{"apiVersion": o.APIVersion, "kind": cascade.BaseKind(o.Kind), "namespace": o.Namespace,
			"name": o.Name, "uid": o.UID},
	}
}

// cut shortens to n bytes, between two letters.
func cut(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
