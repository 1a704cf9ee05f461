package metadata

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/runtime/kube/naming"
)

const discoveryAnswer = `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[
{"resource":"deployments","responseKind":{"group":"","version":"","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","verbs":["delete","get"],"shortNames":["deploy"]}]}]}]}`

func TestNames(t *testing.T) {
	replies := map[string]struct {
		code int
		body string
		err  string
	}{
		"fine":       {200, discoveryAnswer, ""},
		"old":        {200, `{"kind":"APIGroupList"}`, "1.30 or newer"},
		"forbidden":  {403, "{}", "not allowed"},
		"no JSON":    {200, "<html>", "invalid"},
		"too much":   {200, strings.Repeat(" ", maxDiscovery+2), "more than 32 MiB"},
		"not at all": {500, "", "500"},
	}
	for name, reply := range replies {
		t.Run(name, func(t *testing.T) {
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", mediaJSON)
				w.WriteHeader(reply.code)
				_, _ = w.Write([]byte(reply.body)) // a client that has read enough closes
			}), Options{})
			got, err := c.Names(t.Context())
			if reply.err != "" {
				if err == nil || !strings.Contains(err.Error(), reply.err) {
					t.Fatalf("%v, want %q", err, reply.err)
				}
				return
			}
			want := naming.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment", Singular: "deployment", Short: []string{"deploy"}, Deletable: true}
			if diff := cmp.Diff([]naming.Resource{want, want}, got); err != nil || diff != "" { // of /api and of /apis
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func FuzzNames(f *testing.F) {
	f.Add([]byte(discoveryAnswer))
	f.Fuzz(func(t *testing.T, data []byte) {
		var doc discoveryDocument
		if err := json.Unmarshal(data, &doc); err != nil {
			return
		}
		all := doc.names()
		for _, r := range all {
			if found, err := naming.Find(r.Plural+"."+r.Version+"."+r.Group, all); err == nil && found.Plural == "" {
				t.Errorf("%+v is found as nothing", r)
			}
		}
	})
}
