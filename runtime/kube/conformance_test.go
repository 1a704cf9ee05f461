package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ebb-agent/ebb/runtime/kube/servertest"
)

// A real API server passes the same suites in e2e.

func TestFakeAPIConforms(t *testing.T) {
	f, s := newFakeAPI(), servertest.Server{}
	made := 0
	s.Put = func(_ *testing.T, name, node string) {
		made++
		w := wirePod{Namespace: "default", Name: name, Node: node, UID: fmt.Sprint("uid-", made)}
		if old, there := f.pods[podName{w.Namespace, w.Name}]; there {
			w.UID = old.UID
		}
		f.put(w)
	}
	s.Remove = func(_ *testing.T, name string) { f.remove("default", name) }
	s.Forget = func(*testing.T) { f.forget() }
	servertest.Pods(t, serve(t, s, f.handle))
}

func TestFakeEventsConform(t *testing.T) {
	servertest.Events(t, serve(t, servertest.Server{}, (&fakeEvents{have: make(map[string]map[string]any)}).handle))
}

// serve has a server answer by h, whoever asks.
func serve(t *testing.T, s servertest.Server, h http.HandlerFunc) servertest.Server {
	t.Helper()
	listens := httptest.NewServer(h)
	t.Cleanup(listens.Close)
	s.Client, s.URL = listens.Client(), listens.URL
	return s
}
