package metadata

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// versionPath is where a group's version is served: /api/v1, /apis/apps/v1.
func versionPath(apiVersion string) (string, error) {
	group, version, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group, version = "", apiVersion
	}
	switch {
	case !grouped && segment(version):
		return "/api/" + url.PathEscape(version), nil
	case grouped && segment(group) && segment(version):
		return "/apis/" + url.PathEscape(group) + "/" + url.PathEscape(version), nil
	}
	return "", refuse("the apiVersion %q", fault.Clean(apiVersion))
}

func typePath(apiVersion, resource string) (string, error) {
	p, err := versionPath(apiVersion)
	if err == nil && !segment(resource) {
		err = refuse("the resource %q", fault.Clean(resource))
	}
	return p + "/" + url.PathEscape(resource), err
}

// objectPath is where an object is, if its coordinates can be those of one.
func objectPath(o gc.Coordinates, namespaced bool) (string, error) {
	p, err := versionPath(o.APIVersion)
	switch {
	case err != nil:
		return "", err
	case !segment(o.Resource):
		return "", refuse("the resource %q", fault.Clean(o.Resource))
	case !segment(o.Name):
		return "", refuse("the name %q", fault.Clean(o.Name))
	case namespaced && !segment(o.Namespace), !namespaced && o.Namespace != "":
		return "", refuse("the namespace %q", fault.Clean(o.Namespace))
	}
	if namespaced {
		p += "/namespaces/" + url.PathEscape(o.Namespace)
	}
	return p + "/" + url.PathEscape(o.Resource) + "/" + url.PathEscape(o.Name), nil
}

// segment says whether a word can be one of a path, as the API server itself
// demands of names (path.IsValidPathSegmentName). Owner references may say
// anything: ".." must not lead to another object.
func segment(s string) bool {
	return s != "" && len(s) <= 512 && s != "." && s != ".." && !strings.ContainsAny(s, "/%") &&
		strings.IndexFunc(s, unicode.IsControl) < 0
}

func refuse(format string, args ...any) error {
	return &problem{Fault: fault.Fault{Op: "request", Kind: ErrRefused, Text: fmt.Sprintf(format, args...), Hint: "no object can be called that"}}
}
