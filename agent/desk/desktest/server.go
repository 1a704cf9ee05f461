package desktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// object is a Kubernetes object as JSON.
type object = map[string]any

// Many is the number of nodes whose agents behave normally, besides "ok".
const Many = 500

// Special are the node "ok" and the nodes whose agents fail in some way. Pods have the names of
// their nodes.
var Special = []string{"ok", "hangs", "restarts", "missing", "old", "hostile", "silent", "killed", "dropped"}

// Pods returns the agents' pods on nodes, with labels and specs as in the chart.
func Pods(nodes []string) (all []object) {
	for _, name := range nodes {
		all = append(all, object{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": object{"name": name, "namespace": Namespace, "labels": object{
				"app.kubernetes.io/name": "ebb", "app.kubernetes.io/instance": "mine", "app.kubernetes.io/component": "agent", "app.kubernetes.io/version": "0.1.0",
			}},
			"spec": object{"nodeName": name, "containers": []object{{"name": "agent", "image": "registry.example.io/ebb:v1"}}},
		})
	}
	return all
}

// AllNodes returns all nodes that have an agent.
func AllNodes() []string { return slices.Concat(Special, ManyNodes()) }

// ManyNodes returns the nodes of Many.
func ManyNodes() (names []string) {
	for i := range Many {
		names = append(names, fmt.Sprintf("many-%03d", i))
	}
	return names
}

// NewCluster makes a cluster of a kubelet and an API server. The API server serves pods, exec by
// SPDY and SelfSubjectReviews; a bearer token is its user's name. It behaves like one that is older
// than WebSockets.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{Kubelet: NewKubelet(t, func(h http.Handler) (*httptest.Server, error) { return httptest.NewServer(h), nil })}
	api := http.NewServeMux()
	pods := "/api/v1/namespaces/" + Namespace + "/pods"
	api.HandleFunc("GET "+pods, listPods)
	api.HandleFunc(pods+"/{pod}/exec", func(w http.ResponseWriter, r *http.Request) {
		switch who := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); {
		case who == "reader", who == "creator" && r.Method == http.MethodGet, who == "getter" && r.Method == http.MethodPost:
			status(w, http.StatusForbidden, "Forbidden", `pods "x" is forbidden: User "`+who+`" cannot create resource "pods/exec"`)
		case r.PathValue("pod") == "gone":
			status(w, http.StatusNotFound, "NotFound", `pods "gone" not found`)
		case r.Method == http.MethodGet:
			http.Error(w, "no WebSockets", http.StatusBadRequest)
		default:
			c.Kubelet.Exec(w, r, r.PathValue("pod"), r.URL.Query().Get("container"))
		}
	})
	api.HandleFunc("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		answer(w, http.StatusCreated, object{"status": object{"userInfo": object{"username": name}}})
	})
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	c.Admin = &rest.Config{Host: server.URL, BearerToken: "admin"}
	c.Reader = &rest.Config{Host: server.URL, BearerToken: "reader"}
	c.Creator = &rest.Config{Host: server.URL, BearerToken: "creator"}
	c.Getter = &rest.Config{Host: server.URL, BearerToken: "getter"}
	return c
}

// listPods returns at most a hundred pods per page.
func listPods(w http.ResponseWriter, r *http.Request) {
	pods := Pods(AllNodes())
	from, _ := strconv.Atoi(r.URL.Query().Get("continue")) // 0: the first page
	next := ""
	if to := from + 100; to < len(pods) {
		pods, next = pods[:to], fmt.Sprint(to)
	}
	answer(w, http.StatusOK, object{"kind": "PodList", "apiVersion": "v1", "metadata": object{"continue": next}, "items": pods[from:]})
}

func status(w http.ResponseWriter, code int, reason, message string) {
	answer(w, code, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})
}

func answer(w http.ResponseWriter, code int, with any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(with)
}
