package uninstall

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers what a real API server does not on demand: faults. It is asked without
// a network, so that time can be a test's own.
type server struct {
	mu    sync.Mutex
	paths map[string]http.HandlerFunc
	rest  http.HandlerFunc // of all other paths
	asked []string
}

func newServer() *server {
	s := &server{paths: map[string]http.HandlerFunc{}}
	s.json("/api", `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","resources":[
		{"resource":"things","responseKind":{"kind":"Thing"},"scope":"Namespaced","verbs":["list","watch","get","delete"]}]}]}]}`)
	s.json("/apis", `{"kind":"APIGroupDiscoveryList"}`)
	s.json("/apis/apiregistration.k8s.io/v1/apiservices", `{"kind":"APIServiceList","items":[]}`)
	return s
}

// RoundTrip answers.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	h := s.paths[r.URL.Path]
	s.mu.Unlock()
	w := httptest.NewRecorder()
	switch {
	case h != nil:
		h(w, r)
	case s.rest != nil:
		s.rest(w, r)
	default:
		refuse(w, http.StatusNotFound, "nothing here")
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func (s *server) on(path string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths[path] = h
}

func (s *server) json(path, body string) {
	s.on(path, func(w http.ResponseWriter, _ *http.Request) { answer(w, body) })
}

func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, body)
}

func (s *server) config() *rest.Config {
	return &rest.Config{Host: "http://api.example.io", Transport: s, BearerToken: "worth a lot"}
}

func (s *server) count(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if strings.HasPrefix(a, prefix) {
			n++
		}
	}
	return n
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
}

// page is a list's answer.
func page(next string, items ...string) string {
	return fmt.Sprintf(`{"metadata":{"resourceVersion":"7","continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
}

// stuck is an object that waits for a collector.
func stuck(name string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop","uid":%q,"resourceVersion":"5","deletionTimestamp":"2026-01-02T03:04:05Z","finalizers":["orphan"]}}`, name, name)
}
