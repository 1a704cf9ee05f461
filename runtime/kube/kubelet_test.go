package kube

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

const wholeMetrics = "# TYPE kubelet_desired_pods gauge\nkubelet_desired_pods{static=\"\"} 1\nkubelet_desired_pods{static=\"true\"} 1\n"

// kubeletAnswers is a kubelet as a test wants it.
type kubeletAnswers struct {
	metrics atomic.Pointer[string]
	pods    atomic.Pointer[[]byte]
	asked   atomic.Int32 // for metrics
	listed  atomic.Int32 // how often pods were asked for
	config  string
}

func (k *kubeletAnswers) set(metrics string, pods ...[]byte) {
	list := wireList("", pods...)
	k.metrics.Store(&metrics)
	k.pods.Store(&list)
}

func (k *kubeletAnswers) handle(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		k.asked.Add(1)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, *k.metrics.Load())
	case "/pods":
		k.listed.Add(1)
		answerJSON(w, 200, *k.pods.Load())
	case "/configz":
		answerJSON(w, 200, []byte(k.config))
	default:
		http.NotFound(w, r)
	}
}

var (
	staticPod = wirePod{Namespace: "kube-system", Name: "etcd-node-1", UID: "f00d", Node: "node-1", Phase: "Running", Images: []string{"etcd:3"}}
	normalPod = wirePod{Namespace: "shop", Name: "web-0", UID: "u-1", Node: "node-1", Phase: "Pending", Images: []string{"app:1"}}
)

func TestKubelet(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics, normalPod.json(), staticPod.json())
	k := newServer(t, answers.handle).kubelet(t)
	changed := run(t, k)
	for range 3 {
		got, err := k.Pods(t.Context())
		want := Pods{List: []Pod{staticPod.pod(), normalPod.pod()}, StaticKnown: true}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	}
	for uid, want := range map[string]bool{"u-1": false, "f00d": false, "u-2": true} {
		if gone, err := k.Pass().Gone(t.Context(), "shop", "web-0", uid); err != nil || gone != want {
			t.Errorf("%s: gone %v, %v", uid, gone, err)
		}
	}
	if n := answers.asked.Load(); n != 1 {
		t.Errorf("asked %d times for metrics on one connection", n)
	}
	if len(changed) != 0 {
		t.Error("a kubelet reports changes")
	}
}

// A kubelet that was restarted has only static pods at first. Nothing may be
// taken for gone then, on whatever connection.
func TestKubeletRestart(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics, normalPod.json(), staticPod.json())
	s := newServer(t, answers.handle)
	k := s.kubelet(t)
	if _, err := k.Pods(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers.set("# only HELP\n", staticPod.json())
	s.CloseClientConnections()
	for range 10 {
		// At first the connection may just be breaking.
		pods, err := k.Pods(t.Context())
		if err == nil {
			t.Fatalf("%+v", pods)
		}
		if errors.Is(err, ErrIncomplete) {
			break
		}
	}
	if gone, err := k.Pass().Gone(t.Context(), "shop", "web-0", "u-1"); gone || !errors.Is(err, ErrIncomplete) {
		t.Errorf("gone %v, %v", gone, err)
	}
	answers.set(wholeMetrics, normalPod.json(), staticPod.json())
	if pods, err := k.Pods(t.Context()); err != nil || len(pods.List) != 2 {
		t.Errorf("%+v, %v", pods, err)
	}
}

// Restarted between the metrics and the pods: the pods came over another
// connection, and do not count.
func TestKubeletRestartInBetween(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics, normalPod.json())
	var s *server
	restarts := 0
	s = newServer(t, func(w http.ResponseWriter, r *http.Request) {
		answers.handle(w, r)
		if r.URL.Path == "/metrics" && restarts > 0 {
			restarts--
			answers.set("", staticPod.json())
			if restarts == 0 {
				answers.set(wholeMetrics, normalPod.json(), staticPod.json())
			}
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			panic(http.ErrAbortHandler) // takes the answer's end along
		}
	})
	k := s.kubelet(t)
	restarts = 1
	if pods, err := k.Pods(t.Context()); err == nil {
		t.Errorf("metrics that were cut off count: %+v", pods)
	}
	if pods, err := k.Pods(t.Context()); err != nil || len(pods.List) != 2 {
		t.Errorf("%+v, %v", pods, err)
	}
}

// A server that closes every connection can never prove to be one process.
func TestKubeletClosesConnections(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics, normalPod.json())
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		answers.handle(w, r)
	})
	k := s.kubelet(t)
	if pods, err := k.Pods(t.Context()); !errors.Is(err, ErrIncomplete) {
		t.Errorf("%+v, %v", pods, err)
	}
	if n := answers.asked.Load(); n != 3 {
		t.Errorf("asked %d times", n)
	}
}

func TestKubeletRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		path     string
		code     int
		body     string
		want     error
		contains []string
	}{
		"pods forbidden": {"/pods", 403, "Forbidden (user=system:serviceaccount:ebb:agent, verb=get, resource=nodes, subresource(s)=[pods proxy])\n",
			ErrForbidden, []string{"system:serviceaccount:ebb:agent", "nodes/pods", "nodes/proxy", "/pods"}},
		"metrics forbidden": {"/metrics", 403, "Forbidden (user=x, verb=get, resource=nodes, subresource(s)=[metrics])", ErrForbidden, []string{"user=x", "nodes/metrics"}},
		"unauthorized":      {"/pods", 401, "Unauthorized", ErrUnauthorized, []string{"webhook", "token in "}},
		"an error":          {"/pods", 500, "broken\x1b[2J\nvery", ErrUnavailable, []string{"broken"}},
		"nothing":           {"/pods", 503, "", ErrUnavailable, []string{"status 503"}},
		"not there":         {"/pods", 404, "404 page not found", ErrUnavailable, []string{"page not found"}},
		"moved":             {"/pods", 302, "", ErrUnavailable, []string{"status 302"}},
		"no content":        {"/pods", 204, "", ErrUnavailable, []string{"status 204"}},
	} {
		t.Run(name, func(t *testing.T) {
			var answers kubeletAnswers
			answers.set(wholeMetrics, normalPod.json())
			s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != tt.path {
					answers.handle(w, r)
					return
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.code)
				_, _ = io.WriteString(w, tt.body)
			})
			k := s.kubelet(t)
			pods, err := k.Pods(t.Context())
			if !errors.Is(err, tt.want) || pods.List != nil {
				t.Fatalf("%+v, %v", pods, err)
			}
			for _, want := range append(tt.contains, s.URL) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
			if strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("%q cannot be printed", err)
			}
			if gone, err := k.Pass().Gone(t.Context(), "a", "b", "c"); gone || err == nil {
				t.Errorf("gone %v, %v", gone, err)
			}
		})
	}
}

func TestKubeletAnswersNonsense(t *testing.T) {
	for name, tt := range map[string]struct {
		contentType, body string
	}{
		"HTML":       {"text/html", "<html>"},
		"no type":    {"", "{}"},
		"HTML as":    {"application/json", "<html>"},
		"empty list": {"application/json", "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			var answers kubeletAnswers
			answers.set(wholeMetrics)
			k := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/metrics" {
					answers.handle(w, r)
					return
				}
				w.Header().Set("Content-Type", tt.contentType)
				_, _ = io.WriteString(w, tt.body)
			}).kubelet(t)
			if pods, err := k.Pods(t.Context()); !errors.Is(err, ErrMalformed) {
				t.Errorf("%+v, %v", pods, err)
			}
		})
	}
}

// However much of the answer arrives before the connection breaks, with or
// without a length announced: no pods are known.
func TestKubeletCutAnywhere(t *testing.T) {
	body := wireList("", staticPod.json())
	for _, http2 := range []bool{true, false} {
		var cut atomic.Int32
		s := newServerOf(t, http2, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				w.Header().Set("Content-Type", "text/plain")
				_, _ = io.WriteString(w, wholeMetrics)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body[:cut.Load()])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		k := s.kubelet(t)
		step := 1
		if !http2 {
			step = 7 // each is another connection
		}
		for n := 0; n < len(body); n += step {
			cut.Store(int32(n))
			if pods, err := k.Pods(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("cut after %d bytes: %+v, %v", n, pods, err)
			}
		}
	}
}

func TestKubeletTakesTooLong(t *testing.T) {
	release := make(chan struct{})
	k := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "a")
		_ = http.NewResponseController(w).Flush()
		<-release
	}).kubelet(t)
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := k.Pods(ctx); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no answer in time") {
		t.Error(err)
	}
	// Whoever waits for a turn is not kept either.
	k.turn <- struct{}{}
	if _, err := k.Pods(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	<-k.turn
}

func TestKubeletReadOnlyPort(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics, normalPod.json())
	s := newPlainServer(t, answers.handle)
	k, err := NewKubelet(KubeletOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer k.client.close()
	for range 2 {
		if pods, err := k.Pods(t.Context()); err != nil || len(pods.List) != 1 {
			t.Fatalf("%+v, %v", pods, err)
		}
	}
	if n := answers.asked.Load(); n != 1 {
		t.Errorf("asked %d times for metrics: the connection was not kept", n)
	}
}

// The settings come over the connection on which the kubelet knew its pods, so that those are still
// read without its metrics.
func TestImageGCHighThreshold(t *testing.T) {
	answers := kubeletAnswers{config: `{"kubeletconfig":{"imageGCHighThresholdPercent":100}}`}
	answers.set(wholeMetrics, normalPod.json())
	k := newServerOf(t, false, answers.handle).kubelet(t)
	for range 2 {
		if pods, err := k.Pods(t.Context()); err != nil || len(pods.List) != 1 {
			t.Fatalf("%+v, %v", pods, err)
		}
		if percent, err := k.ImageGCHighThreshold(t.Context()); err != nil || percent != 100 {
			t.Errorf("%d, %v", percent, err)
		}
	}
	if n := answers.asked.Load(); n != 1 {
		t.Errorf("asked %d times for metrics: the connection was not kept", n)
	}
	for _, config := range []string{``, `{}`, `{"kubeletconfig":{}}`, `{"kubeletconfig":{"imageGCHighThresholdPercent":"x"}}`} {
		answers.config = config
		if _, err := k.ImageGCHighThreshold(t.Context()); err == nil || !strings.Contains(err.Error(), "configz: the answer has no") {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// A kubelet that does not answer /configz does not keep the pods unknown: the bound here is a third of a call's.
func TestSlowConfigz(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics, normalPod.json())
	asked := make(chan struct{})
	k := newServerOf(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == configzPath {
			close(asked)
			<-r.Context().Done()
			return
		}
		answers.handle(w, r)
	}).kubelet(t)
	failed := make(chan error, 1)
	go func() {
		_, err := k.ImageGCHighThreshold(t.Context())
		failed <- err
	}()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout/3)
	defer cancel()
	if pods, err := k.Pods(ctx); err != nil || len(pods.List) != 1 {
		t.Errorf("%+v, %v", pods, err)
	}
	if err := <-failed; err == nil {
		t.Error("no error")
	}
}

func TestNullItemsOfAKubelet(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics)
	list := bytes.Replace(wireList(""), []byte("[]"), []byte("null"), 1)
	answers.pods.Store(&list)
	k := newServer(t, answers.handle).kubelet(t)
	if pods, err := k.Pods(t.Context()); err != nil || len(pods.List) != 0 || !pods.StaticKnown {
		t.Errorf("%+v, %v", pods, err)
	}
	if gone, err := k.Pass().Gone(t.Context(), "a", "b", "c"); !gone || err != nil {
		t.Errorf("gone %v, %v", gone, err)
	}
}

// However many pods a pass asks for, the list of all is read once; also if that fails. Another
// pass reads it anew.
func TestKubeletPass(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics, normalPod.json(), staticPod.json())
	k := newServer(t, answers.handle).kubelet(t)
	ask := func(p Pass, check func(uid string, gone bool, err error)) {
		t.Helper()
		before := answers.listed.Load()
		var g sync.WaitGroup
		for i := range 100 {
			uid := []string{"u-1", "f00d", "u-2"}[i%3]
			g.Go(func() {
				gone, err := p.Gone(t.Context(), "shop", "web-0", uid)
				check(uid, gone, err)
			})
		}
		g.Wait()
		if n := answers.listed.Load() - before; n > 1 {
			t.Errorf("the list was read %d times", n)
		}
	}
	right := func(uid string, gone bool, err error) {
		if gone != (uid == "u-2") || err != nil {
			t.Errorf("%s: gone %v, %v", uid, gone, err)
		}
	}
	first := k.Pass()
	ask(first, right)
	answers.set(wholeMetrics)
	ask(first, right)
	ask(k.Pass(), func(uid string, gone bool, err error) {
		if !gone || err != nil {
			t.Errorf("in another pass, %s: gone %v, %v", uid, gone, err)
		}
	})
	bad := []byte("<html>")
	answers.pods.Store(&bad)
	failed := k.Pass()
	for range 2 {
		ask(failed, func(uid string, gone bool, err error) {
			if gone || !errors.Is(err, ErrMalformed) {
				t.Errorf("after a failure, %s: gone %v, %v", uid, gone, err)
			}
		})
	}
	if n := answers.listed.Load(); n != 3 {
		t.Errorf("the list was read %d times in three passes", n)
	}
}
