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

// server answers what a real API server does not on demand: faults.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	paths map[string]http.HandlerFunc
	asked []string
}

func newServer(t *testing.T) *server {
	s := &server{paths: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
		h := s.paths[r.URL.Path]
		s.mu.Unlock()
		if h == nil {
			status(w, http.StatusNotFound, "nothing here")
			return
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	s.json("/api", `{"kind":"APIVersions","versions":["v1"]}`)
	s.json("/apis", `{"kind":"APIGroupList","groups":[]}`)
	s.json("/apis/apiregistration.k8s.io/v1/apiservices", `{"kind":"APIServiceList","items":[]}`)
	s.json("/api/v1", `{"kind":"APIResourceList","resources":[{"name":"things","kind":"Thing","namespaced":true,"verbs":["list","watch","get","delete"]}]}`)
	return s
}

func (s *server) on(path string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths[path] = h
}

func (s *server) json(path, body string) {
	s.on(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	})
}

func (s *server) config() *rest.Config { return &rest.Config{Host: s.URL} }

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

func status(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "status": "Failure", "message": message, "code": code})
}

// stuck is an object that waits for a collector.
func stuck(name string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop","deletionTimestamp":"2026-01-02T03:04:05Z","finalizers":["orphan"]}}`, name)
}
