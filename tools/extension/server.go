package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// Config configures a server. Zero fields mean the defaults.
type Config struct {
	Group string // default ext.example.com; the version is v1
	Types []Type // default: Things, namespaced
	// Bookmarks is the interval of bookmarks in a watch. Default 1m, as in the
	// kube-apiserver.
	Bookmarks time.Duration
	// Changed, unless nil, is called with each change as it happens, in order. It must
	// not call the server. For a removed object it gets the last version.
	Changed func(resource string, o Object, gone bool)
}

// Type is a type that a server serves.
type Type struct {
	Resource, Kind string
	Cluster        bool // cluster-scoped
}

// Server is an aggregated API server.
type Server struct {
	config Config
	types  map[string]Type // by resource
	http   *httptest.Server
	began  time.Time

	mu        sync.Mutex
	changed   chan struct{} // closed at each change, and replaced
	closed    bool
	faults    Fault
	restarts  int
	version   uint64
	uids      int
	objects   map[place]*Object
	versions  map[*Object]uint64
	past      []event
	forgotten uint64 // version of the last event that was dropped
	asked     []string
}

// New starts a server on the loopback address. No kube-apiserver uses it until Register.
// The caller must Close it.
func New(authority *peers.Authority, c Config) (*Server, error) {
	c.Group = cmp.Or(c.Group, "ext.example.com")
	if len(c.Types) == 0 {
		c.Types = []Type{{Resource: "things", Kind: "Thing"}}
	}
	if c.Bookmarks <= 0 {
		c.Bookmarks = time.Minute
	}
	s := &Server{config: c, types: map[string]Type{}, began: time.Now(), changed: make(chan struct{}), version: firstVersion,
		objects: map[place]*Object{}, versions: map[*Object]uint64{}}
	for _, t := range c.Types {
		s.types[t.Resource] = t
	}
	var err error
	if s.http, err = authority.Serve(s.routes(), "extension", s.service()+".default.svc"); err != nil {
		return nil, fmt.Errorf("start extension server: %w", err)
	}
	return s, nil
}

func (s *Server) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: s.config.Group, Version: "v1"}
}

// Path returns the URL path of an object, or of a list if name is "". An empty namespace
// means all namespaces, or a cluster-scoped object.
func (s *Server) Path(resource, namespace, name string) string {
	path := "/apis/" + s.groupVersion().String()
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + resource
	if name != "" {
		path += "/" + name
	}
	return path
}

const (
	services    = "/api/v1/namespaces/default/services"
	apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"
)

// Register registers the server with a control plane, and returns once it answers
// requests through the kube-apiserver.
func (s *Server) Register(ctx context.Context, cp *peers.ControlPlane) error {
	admin, err := cp.Admin()
	if err != nil {
		return fmt.Errorf("register extension server: %w", err)
	}
	port := s.http.Listener.Addr().(*net.TCPAddr).Port
	name := s.service()
	// An ExternalName needs no routing of cluster addresses.
	service := map[string]any{"metadata": map[string]any{"name": name},
		"spec": map[string]any{"type": "ExternalName", "externalName": "localhost", "ports": []any{map[string]any{"port": port}}}}
	if err := peers.Request(ctx, admin, http.MethodPost, cp.URL()+services, service, nil); err != nil {
		return fmt.Errorf("register extension server: %w", err)
	}
	api := map[string]any{"metadata": map[string]any{"name": s.apiService()}, "spec": map[string]any{
		"group": s.config.Group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 1, "caBundle": cp.Authority().PEM(),
		"service": map[string]any{"namespace": "default", "name": name, "port": port}}}
	if err := peers.Request(ctx, admin, http.MethodPost, cp.URL()+apiServices, api, nil); err != nil {
		return fmt.Errorf("register extension server: %w", err)
	}
	if err := await.Until(ctx, "an answer through the API server", func(ctx context.Context) error {
		return peers.Request(ctx, admin, http.MethodGet, cp.URL()+s.Path(s.resources()[0], "", ""), nil, nil)
	}); err != nil {
		return fmt.Errorf("register extension server: %w", err)
	}
	return nil
}

// service returns the name of the Service, which the kube-apiserver expects in the
// certificate.
func (s *Server) service() string { return strings.ReplaceAll(s.config.Group, ".", "-") }

func (s *Server) apiService() string { return "v1." + s.config.Group }

// Unregister deletes the APIService.
func (s *Server) Unregister(ctx context.Context, cp *peers.ControlPlane) error {
	admin, err := cp.Admin()
	if err != nil {
		return fmt.Errorf("unregister extension server: %w", err)
	}
	if err := peers.Request(ctx, admin, http.MethodDelete, cp.URL()+apiServices+"/"+s.apiService(), nil, nil); err != nil {
		return fmt.Errorf("unregister extension server: %w", err)
	}
	return nil
}

// Close stops the server and closes its connections. Closing twice is harmless.
func (s *Server) Close() {
	first := false
	s.mu.Lock()
	if !s.closed {
		first, s.closed = true, true
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.mu.Unlock()
	if first {
		s.http.CloseClientConnections()
		s.http.Close()
	}
}

// mostAsked is the least number of requests that are remembered once there are so many.
const mostAsked = 10_000

// Asked returns the latest requests, such as "GET things default/a", "LIST things" and
// "WATCH things", in order.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

func (s *Server) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked = append(s.asked, what); len(s.asked) >= 2*mostAsked {
		s.asked = append([]string(nil), s.asked[mostAsked:]...)
	}
}

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	base := "/apis/" + s.groupVersion().String()
	mux.HandleFunc("GET "+base, s.discover)
	for _, t := range s.types {
		all := base + "/" + t.Resource
		mux.HandleFunc(all, func(w http.ResponseWriter, r *http.Request) { s.collection(w, r, t) })
		if !t.Cluster {
			all = base + "/namespaces/{namespace}/" + t.Resource
			mux.HandleFunc(all, func(w http.ResponseWriter, r *http.Request) { s.collection(w, r, t) })
		}
		mux.HandleFunc(all+"/{name}", func(w http.ResponseWriter, r *http.Request) { s.one(w, r, t) })
	}
	return mux
}

func (s *Server) discover(w http.ResponseWriter, _ *http.Request) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: s.groupVersion().String()}
	for _, resource := range s.resources() {
		t := s.types[resource]
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: t.Resource, Kind: t.Kind, Namespaced: !t.Cluster,
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}})
	}
	answer(w, http.StatusOK, list)
}

func answer(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o) // the client may be gone
}
