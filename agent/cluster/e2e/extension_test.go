package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-agent/ebb/tools/peers"
)

// extension is another API server behind the aggregator: it serves Things, knows
// neither streamed lists nor protobuf, and ignores preconditions. It stands in for those
// that do so, which the API server's own never does.
type extension struct {
	server *httptest.Server
	port   int

	mu      sync.Mutex
	changed *sync.Cond
	closed  bool
	version int
	things  map[string]object // by namespace/name
	past    []object          // events
	asked   []string          // "GET name", "DELETE name"
}

const things = "/apis/ext.example.com/v1"

func newExtension(t *testing.T, b *bed) *extension {
	t.Helper()
	e := &extension{things: map[string]object{}}
	e.changed = sync.NewCond(&e.mu)
	creds, err := b.cp.Authority().Server("extension", "extension.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(creds.Cert, creds.Key)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+things, func(w http.ResponseWriter, _ *http.Request) {
		say(w, object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ext.example.com/v1", "resources": []any{object{
			"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": []any{"get", "list", "watch", "create", "delete", "patch"}}}})
	})
	mux.HandleFunc("GET "+things+"/things", e.list)
	mux.HandleFunc(things+"/namespaces/{namespace}/things/{name}", e.one)
	mux.HandleFunc("POST "+things+"/namespaces/{namespace}/things", e.create)
	e.server = httptest.NewUnstartedServer(mux)
	e.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	e.server.StartTLS()
	e.port = e.server.Listener.Addr().(*net.TCPAddr).Port
	t.Cleanup(e.close)
	// An ExternalName needs nobody who routes cluster addresses.
	b.must(t, http.MethodPost, "/api/v1/namespaces/default/services", object{"metadata": object{"name": "extension"},
		"spec": object{"type": "ExternalName", "externalName": "localhost", "ports": []any{object{"port": e.port}}}})
	b.must(t, http.MethodPost, "/apis/apiregistration.k8s.io/v1/apiservices", object{"metadata": object{"name": "v1.ext.example.com"}, "spec": object{
		"group": "ext.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 1, "caBundle": b.cp.Authority().PEM(),
		"service": object{"namespace": "default", "name": "extension", "port": e.port}}})
	return e
}

func say(w http.ResponseWriter, o object) {
	w.Header().Set("Content-Type", "application/json")
	if code, ok := o["code"].(int); ok {
		w.WriteHeader(code)
	}
	_ = json.NewEncoder(w).Encode(o) // the other side may have gone
}

func (e *extension) close() {
	e.mu.Lock()
	e.closed = true
	e.changed.Broadcast()
	e.mu.Unlock()
	e.server.CloseClientConnections()
	e.server.Close()
}

func (e *extension) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("sendInitialEvents") != "" {
		say(w, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "reason": "Invalid", "message": "sendInitialEvents: Forbidden"})
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if q.Get("watch") == "" {
		items := []any{}
		for _, o := range e.things {
			items = append(items, o)
		}
		say(w, object{"kind": "ThingList", "apiVersion": "ext.example.com/v1", "metadata": object{"resourceVersion": strconv.Itoa(e.version)}, "items": items})
		return
	}
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	stop := context.AfterFunc(r.Context(), func() { e.mu.Lock(); defer e.mu.Unlock(); e.changed.Broadcast() })
	defer stop()
	for at := 0; !e.closed && r.Context().Err() == nil; e.changed.Wait() {
		for ; at < len(e.past); at++ {
			if v, _ := strconv.Atoi(e.past[at]["object"].(object)["metadata"].(object)["resourceVersion"].(string)); v > from {
				_ = json.NewEncoder(w).Encode(e.past[at])
			}
		}
		w.(http.Flusher).Flush()
	}
}

func (e *extension) create(w http.ResponseWriter, r *http.Request) {
	var o object
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m := o["metadata"].(object)
	m["namespace"], m["uid"] = r.PathValue("namespace"), fmt.Sprintf("00000000-0000-4000-8000-%012d", e.version+1)
	e.put(o, "ADDED", true)
	o["code"] = http.StatusCreated
	say(w, o)
	delete(o, "code")
}

// put stores a version of an object, and tells the watches unless it is to be late.
func (e *extension) put(o object, what string, tell bool) {
	e.version++
	m := o["metadata"].(object)
	m["resourceVersion"] = strconv.Itoa(e.version)
	key := fmt.Sprint(m["namespace"], "/", m["name"])
	if e.things[key] = o; what == "DELETED" {
		delete(e.things, key)
	}
	if tell {
		e.past = append(e.past, object{"type": what, "object": o})
		e.changed.Broadcast()
	}
}

// one answers about a single thing. What a DELETE demands is not looked at.
func (e *extension) one(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := r.PathValue("name")
	o := e.things[r.PathValue("namespace")+"/"+name]
	e.asked = append(e.asked, r.Method+" "+name)
	switch {
	case o == nil:
		say(w, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
			"details": object{"name": name, "group": "ext.example.com", "kind": "things"}})
	case r.Method == http.MethodDelete:
		e.put(clone(o), "DELETED", true)
		say(w, object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	default:
		say(w, o)
	}
}

func clone(o object) (c object) {
	data, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		panic(err)
	}
	return c
}

// release takes the owners of a thing away, and no watch tells.
func (e *extension) release(namespace, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := clone(e.things[namespace+"/"+name])
	o["metadata"].(object)["ownerReferences"] = nil
	e.put(o, "MODIFIED", false)
}

// requests about one thing.
func (e *extension) requests(name string) (list []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.asked {
		if strings.HasSuffix(a, " "+name) {
			list = append(list, a)
		}
	}
	return list
}

// Types of an aggregated API server: its objects are read before each deletion, because
// it may ignore what the deletion demands. When it is away, it alone is.
func TestExtension(t *testing.T) {
	kinds["thing"] = struct {
		apiVersion, kind, resource string
		cluster                    bool
		spec                       object
	}{apiVersion: "ext.example.com/v1", kind: "Thing", resource: "things"}
	b := newBed(t, peers.Config{})
	b.define(t, "v1")
	e := newExtension(t, b)
	await(t, "the aggregator", func(ctx context.Context) error { return b.ask(ctx, http.MethodGet, things+"/things", nil, nil) })
	r := b.start(t, b.kubeconfig, nil)
	r.awaitState(t, "things.ext.example.com", "synced")
	s := b.scene(t)
	s.make("cm/o", "thing/a < cm/o", "thing/b < cm/o", "thing/kept < cm/o", "cm/c < thing/b", "thing/p", "cm/d < thing/p", "thing/e < thing/p")
	for _, p := range policies {
		r.sameAsLive(t, s, "cm/o", p)
	}
	e.release(s.namespace, "kept")
	s.remove("cm/o", background)
	s.want("-cm/o", "-thing/a", "-thing/b", "-cm/c", "thing/kept")
	for _, name := range []string{"a", "b"} {
		// The last look comes before the deletion; there may be more of them after it, by this test.
		list := e.requests(name)
		at := slices.Index(list, "DELETE "+name)
		if at < 1 || list[at-1] != "GET "+name {
			t.Errorf("requests about %s: %v", name, list)
		}
	}
	if list := e.requests("kept"); slices.Contains(list, "DELETE kept") {
		t.Errorf("it has no owner any more, and was deleted: %v", list)
	}
	e.close()
	await(t, "the type to be unreadable", func(ctx context.Context) error {
		if state := r.state(ctx, "things.ext.example.com"); state != "unreadable" {
			return errors.New(state)
		}
		return nil
	})
	s.make("cm/q", "cm/f < cm/q", "cm/late < thing/p", "cm/w", "cm/g < !cm/w")
	s.remove("cm/q", orphan)
	s.remove("cm/w", foreground)
	b.canary(t)
	s.want("-cm/q", "cm/f=0", "cm/d=1", "cm/late=1") // the journal has q; nobody knows of p
	b.must(t, http.MethodDelete, "/apis/apiregistration.k8s.io/v1/apiservices/v1.ext.example.com", nil)
	s.want("-cm/w", "-cm/g", "cm/d=1", "cm/late=1") // it is not served any more: that proves nothing
	b.canary(t)
}
