package metadata

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Read reads an object live. Absent is only said of an answer that names that
// very object as not found; the error explains Unknown. Where several resources of the
// group version have the kind, it is absent only if each says so.
//
// A bare 404 (the version is not served, the type has gone), a refusal, an admission
// webhook that answers in the API server's name, HTML, a redirect, silence and nonsense
// are Unknown.
func (c *Client) Read(ctx context.Context, o gc.Coordinates, namespaced bool) (gc.Answer, error) {
	a, err := c.read(ctx, o, namespaced)
	if a.State == gc.Absent || a.State == gc.Exists && a.Object.UID != o.UID {
		if err := c.absentElsewhere(ctx, o); err != nil {
			return gc.Answer{}, err
		}
	}
	return a, err
}

func (c *Client) read(ctx context.Context, o gc.Coordinates, namespaced bool) (gc.Answer, error) {
	path, err := objectPath(o, namespaced)
	if err != nil {
		return gc.Answer{}, err
	}
	// Without a resourceVersion: never an answer from a cache that is behind.
	q := request{method: http.MethodGet, path: path, accept: acceptPartial}
	a, err := c.ask(ctx, q)
	if err != nil {
		return gc.Answer{}, err
	}
	defer c.touch(o)
	if a.code == http.StatusOK {
		object, err := a.object(o)
		if err != nil {
			return gc.Answer{}, broken(q.op(), err)
		}
		return gc.Answer{State: gc.Exists, Object: *object}, nil
	}
	if s := a.status(); a.code == http.StatusNotFound && s.namesAbsent(o) {
		return gc.Answer{State: gc.Absent}, nil
	}
	err = q.refused(a)
	if _, busy := Throttled(err); busy {
		return gc.Answer{State: gc.TooBusy}, err
	}
	return gc.Answer{}, err
}

// object reads an answer as the object that was asked for. With a UID of its
// own: the name may have been taken by another.
func (a *answer) object(o gc.Coordinates) (*gc.Object, error) {
	it, err := a.item()
	if err != nil {
		return nil, err
	}
	if it.Name != o.Name || it.Namespace != o.Namespace || it.UID == "" || it.ResourceVersion == "" {
		return nil, nonsense("the answer is about %s/%s", fault.Clean(it.Namespace), fault.Clean(it.Name))
	}
	it.APIVersion, it.Kind = o.APIVersion, o.Kind
	return &it.Object, nil
}

func (a *answer) item() (item, error) {
	switch a.media {
	case mediaProtobuf:
		t, err := unwrap(a.body)
		if err != nil {
			return item{}, err
		}
		if string(t.kind) != "PartialObjectMetadata" {
			return item{}, nonsense("a %s where an object should be", fault.Clean(string(t.kind)))
		}
		return new(decoder).partial(t.raw)
	case mediaJSON:
		if !json.Valid(a.body) {
			return item{}, nonsense("JSON that is cut off")
		}
		return jsonItem(a.body)
	}
	return item{}, nonsense("an answer of the type %s", fault.Clean(a.media))
}
