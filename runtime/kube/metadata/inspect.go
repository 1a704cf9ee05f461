package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
	"github.com/ebb-agent/ebb/runtime/wait"
)

// ListedObject is an object as [Client.List] returns it. Its strings may share memory with other
// objects: clone what is kept.
type ListedObject struct {
	gc.Object
	Deleted time.Time // deletionTimestamp; zero: none, or an unreadable one
	Labels  map[string]string
}

// Selection narrows a list. The zero value selects everything.
type Selection struct {
	Namespace string // of a namespaced type; empty: all
	Labels    string // a label selector
	Fields    string // a field selector
}

func (s Selection) values() url.Values {
	v := url.Values{}
	for key, value := range map[string]string{"labelSelector": s.Labels, "fieldSelector": s.Fields} {
		if value != "" {
			v.Set(key, value)
		}
	}
	return v
}

func (s Selection) path(t gc.Type) (string, error) {
	if s.Namespace == "" || !t.Namespaced {
		return pathOf(t.APIVersion, t.Resource)
	}
	return pathOf(t.APIVersion, "namespaces", s.Namespace, t.Resource)
}

// listAttempts is how often a list is tried before it counts as unreadable.
const listAttempts = 3

// List reads the metadata of a type once, page by page, and calls each for each object. It calls
// begin first, and whenever the list starts over: the objects that were reported before no longer
// count.
func (c *Client) List(ctx context.Context, t gc.Type, s Selection, begin func(), each func(ListedObject)) error {
	f := c.Follow(t, nil, nil)
	f.path, f.pathErr = s.path(t)
	if f.pathErr != nil {
		return f.fault(f.pathErr)
	}
	f.query, f.decoder.details = s.values(), true
	pause := c.timing.minPause
	for attempt := 1; ; attempt++ {
		begin()
		place := c.place(ctx, c.lists)
		err := f.all(ctx, place.heard, func(it item) error {
			if it.unsound() != nil {
				return nil // of another API server: no reference can name it
			}
			it.listed.Object = it.Object
			it.listed.APIVersion, it.listed.Kind = t.APIVersion, t.Kind
			each(*it.listed)
			return nil
		})
		place.release()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrForbidden), errors.Is(err, ErrUnauthorized), errors.Is(err, ErrNotServed), attempt == listAttempts:
			return f.fault(err)
		case errors.Is(err, errExpired):
			f.whole = true // its pages expire before they are read
			continue
		}
		if !f.wait(ctx, max(wait.Jitter(pause), fault.RetryAfter(err))) {
			return ctx.Err()
		}
		pause *= 2
	}
}

// all reads a list page by page, or in one answer if f.whole is set. It calls read after each
// page but the last.
func (f *Follower) all(ctx context.Context, read func(), each func(item) error) error {
	limit := pageSize
	if f.whole {
		limit = 0
	}
	for next := ""; ; {
		p, err := f.list(ctx, next, limit, each)
		if err != nil || p.next == "" {
			return err
		}
		read()
		next = p.next
	}
}

func (t *ListedObject) deletion(b []byte) (err error) {
	if t != nil {
		t.Deleted, err = protobuf.Time(b)
	}
	return err
}

func (t *ListedObject) label(b []byte) error {
	if t == nil {
		return nil
	}
	var key, value []byte
	err := protobuf.Read(b, protobuf.To{Field: 1, Bytes: &key}, protobuf.To{Field: 2, Bytes: &value})
	if t.Labels == nil {
		t.Labels = make(map[string]string)
	}
	t.Labels[string(key)] = string(value)
	return err
}

// Whole reads one whole object as JSON into to.
func (c *Client) Whole(ctx context.Context, o gc.Coordinates, namespaced bool, to any) error {
	path, err := objectPath(o, namespaced)
	if err != nil {
		return err
	}
	return c.askJSON(ctx, request{method: http.MethodGet, path: path, accept: mediaJSON, limit: maxObject}, to)
}

// WholeList reads the whole objects of a type as JSON. It is for types that have few.
func (c *Client) WholeList(ctx context.Context, t gc.Type, s Selection, each func(json.RawMessage) error) error {
	path, err := s.path(t)
	if err != nil {
		return err
	}
	query := s.values()
	query.Set("limit", strconv.Itoa(pageSize))
	for {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := c.askJSON(ctx, request{method: http.MethodGet, path: path, query: query.Encode(), accept: mediaJSON, limit: maxDiscovery}, &page); err != nil {
			return err
		}
		for _, it := range page.Items {
			if err := each(it); err != nil {
				return err
			}
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// ListFields reads all objects of a type live, with what fields picks from each; s selects the
// objects. The strings that take gets share the memory of a page. An object whose fields cannot
// be read is an error, because callers need proof.
func (c *Client) ListFields(ctx context.Context, t gc.Type, s Selection, fields Fields, take func(gc.Object, any) error) error {
	f := c.Follow(t, fields, nil)
	if f.path, f.pathErr = s.path(t); f.pathErr != nil {
		return f.fault(f.pathErr)
	}
	f.query = s.values()
	return f.all(ctx, func() {}, func(it item) error {
		if it.fields == nil && fields != nil {
			return fault.Nonsense("%s %s/%s cannot be read", t.Kind, fault.Clean(it.Namespace), fault.Clean(it.Name))
		}
		it.APIVersion, it.Kind = t.APIVersion, t.Kind
		return take(it.Object, it.fields)
	})
}

// ReadFields reads one object live, and returns what fields picks from it. Without an error the
// object exists, with any UID.
func (c *Client) ReadFields(ctx context.Context, o gc.Coordinates, namespaced bool, fields Fields) (any, error) {
	path, err := objectPath(o, namespaced)
	if err != nil {
		return nil, err
	}
	q := request{method: http.MethodGet, path: path, accept: mediaProtobuf}
	a, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	if a.code != http.StatusOK {
		return nil, q.refused(a)
	}
	if _, err = a.object(o, o.Kind); err != nil {
		return nil, broken(q.op(), err)
	}
	t, err := unwrap(a.body)
	if err != nil {
		return nil, broken(q.op(), err)
	}
	got, err := fields(t.raw)
	if err != nil { // without the error's text, which may contain a secret
		return nil, broken(q.op(), fault.Nonsense("a %s that cannot be read", o.Kind))
	}
	return got, nil
}
