package metadata

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Read reads an object live. Absent is only returned for an answer that names that very object as
// not found. Where several resources of the group version have the kind, each must answer so. The
// error explains Unknown.
//
// A bare 404 (the version is not served, the type is gone), a refusal, an admission webhook that
// answers in the API server's name, HTML, a redirect, a timeout and malformed answers are
// Unknown.
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
	// No resourceVersion: the answer must not come from a stale cache.
	q := request{method: http.MethodGet, path: path, accept: acceptPartial}
	a, err := c.ask(ctx, q)
	if err != nil {
		return gc.Answer{}, err
	}
	defer c.continuity.touch(inAllVersions(o.APIVersion, o.Resource))
	if a.code == http.StatusOK {
		object, err := a.object(o, partialKind)
		if err != nil {
			return gc.Answer{}, broken(q.op(), err)
		}
		return gc.Answer{State: gc.Exists, Object: *object}, nil
	}
	if a.code == http.StatusNotFound && namesAbsent(a.status(), o) {
		return gc.Answer{State: gc.Absent}, nil
	}
	err = q.refused(a)
	if _, busy := Throttled(err); busy {
		return gc.Answer{State: gc.TooBusy}, err
	}
	return gc.Answer{}, err
}

// object decodes an answer as the object at o, which in protobuf has this kind. The result has
// the UID of the answer: another object may have taken the name.
func (a *answer) object(o gc.Coordinates, kind string) (*gc.Object, error) {
	it, err := a.item(kind)
	if err != nil {
		return nil, err
	}
	if it.Name != o.Name || it.Namespace != o.Namespace || it.UID == "" || it.ResourceVersion == "" {
		return nil, fault.Nonsense("the answer is about %s/%s", fault.Clean(it.Namespace), fault.Clean(it.Name))
	}
	it.APIVersion, it.Kind = o.APIVersion, o.Kind
	return &it.Object, nil
}

func (a *answer) item(kind string) (item, error) {
	switch a.media {
	case mediaProtobuf:
		t, err := unwrap(a.body)
		if err != nil {
			return item{}, err
		}
		if string(t.kind) != kind {
			return item{}, fault.Nonsense("a %s where an object should be", fault.Clean(string(t.kind)))
		}
		return new(decoder).partial(t.raw)
	case mediaJSON:
		if !json.Valid(a.body) {
			return item{}, fault.Nonsense("JSON that is cut off")
		}
		return jsonItem(a.body)
	}
	return item{}, fault.Nonsense("an answer of the type %s", fault.Clean(a.media))
}

// alike has, by group version and kind, the resources other than the first of the kind. A
// reference to the kind may mean an object of any of them.
type alike map[[2]string][]resource

// absentElsewhere returns nil if each other resource of the kind answered that it does not have
// the object. If one has it, that is an error, too: the watch of that resource reports the
// object.
func (c *Client) absentElsewhere(ctx context.Context, o gc.Coordinates) error {
	known := c.alike.Load()
	if known == nil {
		return nil
	}
	for _, r := range (*known)[[2]string{o.APIVersion, o.Kind}] {
		other := o
		if other.Resource = r.name; !r.namespaced {
			other.Namespace = ""
		}
		a, err := c.read(ctx, other, r.namespaced)
		switch {
		case a.State == gc.Exists && a.Object.UID == o.UID:
			return fmt.Errorf("it is one of the %s, which have the same kind", fault.Clean(r.name))
		case a.State == gc.Unknown, a.State == gc.TooBusy:
			return fmt.Errorf("read the %s, which have the same kind: %w", fault.Clean(r.name), err)
		}
	}
	return nil
}

// pathOf returns the path of the words in a group's version (/api/v1, /apis/apps/v1), or an error
// if they cannot be elements of a path.
func pathOf(apiVersion string, words ...string) (string, error) {
	group, version, grouped := strings.Cut(apiVersion, "/")
	path, all := "/api", append([]string{group}, words...)
	if grouped {
		path, all = "/apis", append([]string{group, version}, words...)
	}
	for _, w := range all {
		if !segment(w) {
			return "", refuse("%q in the path of %q", fault.Clean(w), fault.Clean(strings.Join(words, "/")+" "+apiVersion))
		}
		path += "/" + url.PathEscape(w)
	}
	return path, nil
}

// objectPath returns the path of an object, or an error if no object can have these coordinates.
func objectPath(o gc.Coordinates, namespaced bool) (string, error) {
	switch {
	case namespaced:
		return pathOf(o.APIVersion, "namespaces", o.Namespace, o.Resource, o.Name)
	case o.Namespace != "":
		return "", refuse("the namespace %q", fault.Clean(o.Namespace))
	}
	return pathOf(o.APIVersion, o.Resource, o.Name)
}

// segment reports whether s can be an element of a path, by the API server's own rule for names
// (path.IsValidPathSegmentName). An owner reference may contain anything: ".." must not lead to
// another object.
func segment(s string) bool {
	return s != "" && len(s) <= 512 && s != "." && s != ".." && !strings.ContainsAny(s, "/%") &&
		strings.IndexFunc(s, unicode.IsControl) < 0
}

func refuse(format string, args ...any) error {
	return &fault.Answer{Fault: fault.Fault{Op: "request", Kind: ErrRefused, Text: fmt.Sprintf(format, args...), Hint: "no object can be called that"}}
}
