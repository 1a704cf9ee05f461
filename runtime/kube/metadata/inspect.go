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
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
	"github.com/ebb-agent/ebb/runtime/wait"
)

// ListedObject is an object as [Client.List] returns it. Its strings may share the memory of others:
// clone what is kept.
type ListedObject struct {
	gc.Object
	Deleted time.Time // deletionTimestamp; zero: none, or none that can be read
	Labels  map[string]string
}

// Selection narrows a list. The zero value selects everything.
type Selection struct {
	Namespace string // of a type that has namespaces; empty: all
	Labels    string // a label selector
	Fields    string // a field selector
}

func (s Selection) values() url.Values {
	v := url.Values{}
	if s.Labels != "" {
		v.Set("labelSelector", s.Labels)
	}
	if s.Fields != "" {
		v.Set("fieldSelector", s.Fields)
	}
	return v
}

func (s Selection) path(t gc.Type) (string, error) {
	if s.Namespace == "" || !t.Namespaced {
		return typePath(t.APIVersion, t.Resource)
	}
	p, err := versionPath(t.APIVersion)
	switch {
	case err != nil:
		return "", err
	case !segment(s.Namespace):
		return "", refuse("the namespace %q", s.Namespace)
	case !segment(t.Resource):
		return "", refuse("the resource %q", t.Resource)
	}
	return p + "/namespaces/" + url.PathEscape(s.Namespace) + "/" + url.PathEscape(t.Resource), nil
}

// listAttempts are how often a list may break off before it counts as one that cannot be
// read.
const listAttempts = 3

// List reads the metadata of a type once, page by page, and hands each object to each.
// begin is called first, and whenever the list begins anew: what was reported before counts
// no more.
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
		err := f.once(ctx, each)
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
		if !f.wait(ctx, max(wait.Jitter(pause), retryAfter(err))) {
			return ctx.Err()
		}
		pause *= 2
	}
}

// once reads all pages.
func (f *Follower) once(ctx context.Context, each func(ListedObject)) error {
	place := f.c.listSlot(ctx)
	defer place.release()
	limit, next := pageSize, ""
	if f.whole {
		limit = 0
	}
	for begun := false; !begun || next != ""; begun = true {
		p, err := f.list(ctx, next, limit, func(it item) error {
			if it.unsound() != nil {
				return nil // of another API server: nobody could refer to it
			}
			listed := ListedObject{}
			if it.listed != nil {
				listed = *it.listed
			}
			listed.Object = it.Object
			listed.APIVersion, listed.Kind = f.t.APIVersion, f.t.Kind
			each(listed)
			return nil
		})
		if err != nil {
			return err
		}
		place.heard()
		next = p.next
	}
	return nil
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
	err := read(b, protobuf.To{Field: 1, Bytes: &key}, protobuf.To{Field: 2, Bytes: &value})
	if t.Labels == nil {
		t.Labels = make(map[string]string)
	}
	t.Labels[string(key)] = string(value)
	return err
}

// Whole reads one object as JSON, with all that is in it.
func (c *Client) Whole(ctx context.Context, o gc.Coordinates, namespaced bool, to any) error {
	path, err := objectPath(o, namespaced)
	if err != nil {
		return err
	}
	return c.askJSON(ctx, request{method: http.MethodGet, path: path, accept: mediaJSON, limit: maxObject}, to)
}

// WholeList reads the objects of a type as JSON, with all that is in them: of types that
// have few.
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
