package metadata

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Who serves a version: what is announced, what was known while nothing is announced, and what
// is announced by nobody.
func TestRemoteVersions(t *testing.T) {
	announced := ""
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if announced == "broken" {
			code(http.StatusServiceUnavailable, "text/plain", "later")(t, w, r)
			return
		}
		var items []string
		for _, a := range strings.Fields(announced) {
			group, remote := strings.CutSuffix(a, "!")
			service := "null"
			if remote {
				service = "{}"
			}
			items = append(items, fmt.Sprintf(`{"spec":{"group":%q,"version":"v1","service":%s}}`, group, service))
		}
		jsonObjects(`{"kind":"APIServiceList","items":[%s]}`, items...)(t, w, r)
	}), Options{})
	all := []groupVersion{{name: "a/v1"}, {name: "b/v1"}, {name: core}, {name: registration + "/v1"}}
	for i, test := range []struct {
		announced    string // by group; those of other servers with a !
		a, b, unsure bool
	}{
		{"broken", true, true, true}, // nothing was ever known
		{"a b!", false, true, false},
		{"broken", false, true, true},
		{"", false, true, false}, // a definition that is not announced yet, and one on its way out
		{"a! b", true, false, false},
	} {
		announced = test.announced
		first, err := c.remoteVersions(context.Background())
		remote, unsure := c.remoteOf(context.Background(), all, first, err)
		if remote.has("a/v1") != test.a || remote.has("b/v1") != test.b || (unsure != nil) != test.unsure || remote.has(registration+"/v1") || remote.has(core) {
			t.Errorf("%d, announced %q: %v, %v", i, test.announced, remote, unsure)
		}
	}
}
