package events_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/runtime/kube"
)

const kubeconfig = `current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: %q}}]
`

// As long as a server asks for, it is left alone: before the second attempt, and after it.
func TestRetryAfter(t *testing.T) {
	asked := make(chan time.Time, 10)
	attempts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- time.Now()
		if attempts++; attempts <= 2 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, fmt.Appendf(nil, kubeconfig, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	api, err := kube.NewAPIServer(kube.APIServerOptions{NodeName: "n", Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	r := events.New(prometheus.NewRegistry(), events.Options{Poster: api, Conditions: condition.NewSet(log), Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	r.Record(events.Fact{Reason: events.Hold})
	r.Record(events.Fact{Reason: events.Paused})
	last := <-asked
	for n := range 2 {
		select {
		case at := <-asked:
			if after := at.Sub(last); after < time.Second {
				t.Errorf("attempt %d came after %v", n+2, after)
			}
			last = at
		case <-time.After(30 * time.Second):
			t.Fatal("nothing came")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
