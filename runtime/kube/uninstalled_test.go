package kube

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// Only an answer of the API server itself proves that ebb is being uninstalled: its namespace or its DaemonSet is
// gone or going, or it does not know the agent any more.
func TestUninstalled(t *testing.T) {
	const namespace, daemonSet = "/api/v1/namespaces/tide", "/apis/apps/v1/namespaces/tide/daemonsets/agent"
	object := func(name string, more map[string]any) []byte {
		m := map[string]any{"name": name}
		for k, v := range more {
			m[k] = v
		}
		return mustJSON(map[string]any{"metadata": m})
	}
	deleting := map[string]any{"deletionTimestamp": "2026-11-26T12:00:00Z"}
	status := func(code int, reason, group, kind, name string) []byte {
		return mustJSON(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
			"details": map[string]string{"group": group, "kind": kind, "name": name}})
	}
	type answer struct {
		code int
		body []byte
	}
	there, alsoThere := answer{200, object("tide", nil)}, answer{200, object("agent", nil)}
	for name, c := range map[string]struct {
		namespace, daemonSet answer
		want                 string
		err                  error
	}{
		"a restart":                     {there, alsoThere, "", nil},
		"the namespace goes":            {answer{200, object("tide", deleting)}, alsoThere, "namespaces tide is being deleted", nil},
		"the namespace is gone":         {answer{404, status(404, "NotFound", "", "namespaces", "tide")}, alsoThere, "namespaces tide is gone", nil},
		"the DaemonSet goes":            {there, answer{200, object("agent", deleting)}, "daemonsets agent is being deleted", nil},
		"the DaemonSet is gone":         {there, answer{404, status(404, "NotFound", "apps", "daemonsets", "agent")}, "daemonsets agent is gone", nil},
		"the rights are gone":           {there, answer{403, status(403, "Forbidden", "apps", "daemonsets", "agent")}, "rights", nil},
		"the account is gone":           {answer{401, status(401, "Unauthorized", "", "", "")}, alsoThere, "account", nil},
		"another one's 404":             {there, answer{404, []byte("404 page not found\n")}, "", ErrUnavailable},
		"a 404 of another group":        {there, answer{404, status(404, "NotFound", "extensions", "daemonsets", "agent")}, "", ErrUnavailable},
		"down":                          {answer{503, nil}, alsoThere, "", ErrUnavailable},
		"no object":                     {there, answer{200, []byte("[]")}, "", ErrMalformed},
		"nothing of what was asked for": {there, answer{200, []byte("{}")}, "", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			a := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case namespace:
					answerJSON(w, c.namespace.code, c.namespace.body)
				case daemonSet:
					answerJSON(w, c.daemonSet.code, c.daemonSet.body)
				default:
					t.Errorf("asked for %s", r.URL.Path)
				}
			}).apiServer(t)
			reason, err := a.Uninstalled(t.Context(), "tide", "agent")
			if !strings.Contains(reason, c.want) || (reason == "") != (c.want == "") || !errors.Is(err, c.err) {
				t.Errorf("%q, %v", reason, err)
			}
		})
	}
	a := newServer(t, func(http.ResponseWriter, *http.Request) { t.Error("was asked") }).apiServer(t)
	for _, name := range []string{"", "..", "a/b", "A"} {
		if reason, err := a.Uninstalled(t.Context(), "tide", name); reason != "" || err == nil {
			t.Errorf("DaemonSet %q: %q, %v", name, reason, err)
		}
	}
}
