package kube

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const secret = "s3cret-token"

// server answers with a certificate of its own authority, and wants a token.
type server struct {
	*httptest.Server
	authority *authority
	caFile    string
	tokenFile string
}

// newServer starts a server; h is not asked by anybody without the token.
func newServer(t testing.TB, h http.HandlerFunc) *server {
	t.Helper()
	return newServerOf(t, true, h)
}

func newServerOf(t testing.TB, http2 bool, h http.HandlerFunc) *server {
	t.Helper()
	s := &server{authority: newAuthority(t, "test authority")}
	s.caFile = write(t, "ca.crt", s.authority.pem)
	s.tokenFile = write(t, "token", []byte(secret+"\n"))
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known := r.Header.Get("Authorization") == "Bearer "+secret || r.TLS != nil && len(r.TLS.VerifiedChains) > 0
		if !known {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		h(w, r)
	}))
	s.TLS = s.authority.server(t, "node-1", time.Now().Add(time.Hour))
	s.EnableHTTP2 = http2
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) access() access {
	return access{url: s.URL, caFile: s.caFile, tokenFile: s.tokenFile}
}

func (s *server) kubelet(t testing.TB) *Kubelet {
	t.Helper()
	k, err := NewKubelet(KubeletOptions{URL: s.URL, CAFile: s.caFile, TokenFile: s.tokenFile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.client.close)
	return k
}

// quickTiming has the usual pauses at a hundredth of the time. Nothing that a loaded machine does is taken for silence.
var quickTiming = timing{
	call: 20 * time.Second, idle: 20 * time.Second, connect: 20 * time.Second,
	life: time.Minute, resume: 10 * time.Millisecond, trust: 10 * time.Millisecond,
	firstPause: 2 * time.Millisecond, maxPause: 80 * time.Millisecond, firstWindow: 10 * time.Millisecond, maxWindow: 40 * time.Millisecond,
	unknownSpread: 40 * time.Millisecond,
}

func (s *server) apiServer(t testing.TB) *APIServer {
	t.Helper()
	a, err := newAPIServer(s.access(), "node-1")
	if err != nil {
		t.Fatal(err)
	}
	a.timing = quickTiming
	t.Cleanup(a.client.close)
	return a
}

// run runs the source until the test ends, and returns its notifications.
func run(t testing.TB, s Source) <-chan struct{} {
	t.Helper()
	changed := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx, changed); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return changed
}

// eventually waits for a condition, which is checked whenever the source
// reports a change. Every change must be reported, or this waits in vain.
func eventually(t testing.TB, s Source, changed <-chan struct{}, what string, ok func(Pods, error) bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		pods, err := s.Pods(t.Context())
		if ok(pods, err) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: still %+v, %v", what, pods, err)
		}
	}
}

func isError(target error) func(Pods, error) bool {
	return func(_ Pods, err error) bool { return errors.Is(err, target) }
}

func has(names ...string) func(Pods, error) bool {
	return func(p Pods, err error) bool {
		var got []string
		for _, pod := range p.List {
			got = append(got, pod.Name)
		}
		return err == nil && strings.Join(got, " ") == strings.Join(names, " ")
	}
}

func answerJSON(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that went is what some tests are about
}
