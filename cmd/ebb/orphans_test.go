package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/orphans"
)

// sparse is an API server with one type, of which one object is stuck, and a Helm release of
// seven revisions. Its list of Secrets may be forbidden.
type sparse struct{ forbidden bool }

func (s sparse) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const api = `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":""},"versions":[{"version":"v1","resources":[` +
		`{"resource":"secrets","responseKind":{"kind":"Secret"},"scope":"Namespaced","verbs":["get","list","watch","delete"]}]}]}]}`
	w.Header().Set("Content-Type", "application/json")
	switch path := r.URL.Path; {
	case path == "/api":
		fmt.Fprint(w, api)
	case path == "/apis":
		fmt.Fprint(w, `{"kind":"APIGroupDiscoveryList","items":[]}`)
	case s.forbidden && strings.HasSuffix(path, "/secrets"):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}`)
	case path == "/api/v1/secrets" || path == "/api/v1/namespaces/shop/secrets" || path == "/api/v1/namespaces/default/secrets":
		items := []string{`{"metadata":{"name":"held","namespace":"shop","uid":"u","resourceVersion":"1","deletionTimestamp":"2020-01-01T00:00:00Z","finalizers":["lost.test/x"]}}`}
		if r.URL.Query().Get("fieldSelector") != "" {
			items = nil
			for i := range 7 {
				name := fmt.Sprintf("sh.helm.release.v1.web.v%d", i)
				items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop","uid":"r%d","resourceVersion":"1","labels":{"owner":"helm","name":"web","version":"%d","status":"superseded"}}}`, name, i, i))
			}
		}
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"5"},"items":[%s]}`, strings.Join(items, ","))
	case strings.HasPrefix(path, "/apis/admissionregistration.k8s.io/"):
		fmt.Fprint(w, `{"items":[]}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func kubeconfigOf(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}],
		contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}`, server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestOrphansExamples: each example of the help runs, and its output is as documented.
func TestOrphansExamples(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfigOf(t, sparse{}))
	ran := 0
	for line := range strings.Lines(orphansExamples) {
		command, _, _ := strings.Cut(strings.TrimSpace(line), " | ")
		args := strings.Fields(command)
		if len(args) == 0 || args[0] != "ebb" {
			continue
		}
		ran++
		var out, errs bytes.Buffer
		err := run(context.Background(), args[1:], &out, &errs)
		if !errors.Is(err, exitFindings) || !strings.Contains(out.String(), "secrets") || errs.Len() > 0 {
			t.Errorf("%s: %v\n%s%s", command, err, &out, &errs)
		}
		if strings.Contains(command, "json") {
			var r orphans.Report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Findings) != 2 || strings.Count(r.Findings[1].Command, "secrets/") != 2 {
				t.Errorf("%v: %+v", err, r)
			}
		}
	}
	if ran != 4 {
		t.Errorf("%d examples ran", ran)
	}
}

// TestOrphansReportsMissingRights: a user without rights gets an incomplete answer, not an empty one. The
// commands are for the cluster that was asked.
func TestOrphansReportsMissingRights(t *testing.T) {
	var out, errs bytes.Buffer
	err := run(context.Background(), []string{"orphans", "-A", "--kubeconfig", kubeconfigOf(t, sparse{forbidden: true})}, &out, &errs)
	if !errors.Is(err, exitIncomplete) || !strings.Contains(out.String(), "INCOMPLETE") || !strings.Contains(out.String(), "secrets") {
		t.Errorf("%v\n%s", err, &out)
	}
	out.Reset()
	file := kubeconfigOf(t, sparse{})
	err = run(context.Background(), []string{"orphans", "-n", "shop", "--kubeconfig", file, "--context", "c", "-o", "json"}, &out, &errs)
	if !errors.Is(err, exitFindings) || !strings.Contains(out.String(), "kubectl --kubeconfig="+file+" --context=c patch secrets/held") {
		t.Errorf("%v\n%s", err, &out)
	}
	out.Reset()
	if err = run(context.Background(), []string{"orphans", "--kubeconfig", file}, &out, &errs); err != nil || !strings.Contains(out.String(), "Nothing was found") {
		t.Errorf("the namespace default: %v\n%s", err, &out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out.Reset()
	if err := run(ctx, []string{"orphans", "-A", "--kubeconfig", file}, &out, &errs); err == nil || errors.Is(err, exitFindings) || out.Len() > 0 {
		t.Errorf("interrupted: %v\n%s", err, &out)
	}
}
