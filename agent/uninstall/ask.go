package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const attempts = 4

type object = map[string]any

var clean = fault.Clean

// again calls ask up to attempts times, with a back-off, while there is no answer, or one that may
// pass: 429 or 5xx.
func again(ctx context.Context, ask func() error) error {
	pause := wait.Backoff{Min: 250 * time.Millisecond, Max: 2 * time.Second}
	for attempt := 1; ; attempt++ {
		err := ask()
		code := kube.Answered(err)
		passes := code < 400 || code/100 == 5 || code == http.StatusTooManyRequests
		if err == nil || !passes || attempt == attempts || !wait.Sleep(ctx, pause.Next()) {
			return err
		}
	}
}

func send(ctx context.Context, c *kube.Client, method, path string, query url.Values, content, to any) error {
	return again(ctx, func() error { return c.Send(ctx, method, path, query, content, to) })
}

// readAll reads all objects of a type, with the fields that T has.
func readAll[T any](ctx context.Context, c *kube.Client, t gc.Type, s kube.Selection) (all []T, err error) {
	err = again(ctx, func() error {
		all = nil
		return c.WholeList(ctx, t, s, func(data json.RawMessage) error {
			var one T
			err := json.Unmarshal(data, &one)
			all = append(all, one)
			return err
		})
	})
	return all, err
}

// list reads the metadata of all objects of a type.
func list(ctx context.Context, c *kube.Client, t gc.Type, s kube.Selection) (all []kube.ListedObject, err error) {
	err = c.List(ctx, t, s, func() { all = nil }, func(o kube.ListedObject) { all = append(all, o) })
	return all, err
}

func typeOf(apiVersion, kind string) gc.Type {
	return gc.Type{APIVersion: apiVersion, Kind: kind, Resource: strings.ToLower(kind) + "s", Namespaced: kind != "Node"}
}

var (
	daemonSets = typeOf("apps/v1", "DaemonSet")
	revisions  = typeOf("apps/v1", "ControllerRevision")
	podType    = typeOf("v1", "Pod")
	nodeType   = typeOf("v1", "Node")
)

// pathOf returns the path of an object or, without a name, of all objects in the namespace.
func pathOf(t gc.Type, namespace, name string) string {
	base := "/apis/"
	if gc.GroupOf(t.APIVersion) == "" {
		base = "/api/"
	}
	return strings.TrimSuffix(fmt.Sprintf("%s%s/namespaces/%s/%s/%s", base, t.APIVersion, url.PathEscape(namespace), t.Resource, url.PathEscape(name)), "/")
}
