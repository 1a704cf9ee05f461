package metadata

import (
	"context"
	"net/http"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// ListFields reads all objects of a type live, as they stand when it is asked for, with what
// fields picks; s selects them. The strings that take gets share the
// memory of a page. An object whose fields cannot be read is an error: who lists live wants
// proof.
func (c *Client) ListFields(ctx context.Context, t gc.Type, s Selection, fields Fields, take func(gc.Object, any) error) error {
	f := c.Follow(t, fields, nil)
	if f.path, f.pathErr = s.path(t); f.pathErr != nil {
		return f.fault(f.pathErr)
	}
	f.query = s.values()
	for next := ""; ; {
		p, err := f.list(ctx, next, pageSize, func(it item) error {
			if it.fields == nil && fields != nil {
				return nonsense("%s %s/%s cannot be read", t.Kind, fault.Clean(it.Namespace), fault.Clean(it.Name))
			}
			it.APIVersion, it.Kind = t.APIVersion, t.Kind
			return take(it.Object, it.fields)
		})
		if err != nil || p.next == "" {
			return err
		}
		next = p.next
	}
}

// ReadFields reads what fields picks from one object, live. There is one, with whatever UID, if
// there is no error.
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
	if a.media != mediaProtobuf {
		return nil, broken(q.op(), nonsense("an answer of the type %s", fault.Clean(a.media)))
	}
	t, err := unwrap(a.body)
	if err != nil {
		return nil, broken(q.op(), err)
	}
	it, err := new(decoder).partial(t.raw)
	if err == nil && (string(t.kind) != o.Kind || it.Name != o.Name || it.Namespace != o.Namespace || it.UID == "") {
		err = nonsense("the answer is about %s %s/%s", fault.Clean(string(t.kind)), fault.Clean(it.Namespace), fault.Clean(it.Name))
	}
	if err != nil {
		return nil, broken(q.op(), err)
	}
	got, err := fields(t.raw)
	if err != nil { // without its words: they may repeat what is secret
		return nil, broken(q.op(), nonsense("a %s that cannot be read", o.Kind))
	}
	return got, nil
}
