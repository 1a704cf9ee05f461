package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/peers"
)

// forgetful has etcd forget all but the newest state before each page but the first.
type forgetful struct {
	http.RoundTripper
	forget  func()
	expired *atomic.Int64
}

func (f *forgetful) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("continue") != "" {
		f.forget()
	}
	resp, err := f.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusGone {
		f.expired.Add(1)
	}
	return resp, err
}

// A list that is read page by page ends, however fast etcd forgets.
func TestPagesExpire(t *testing.T) {
	b := newFixture(t, peers.Config{APIServerArgs: []string{"--feature-gates=WatchList=false,ListFromCacheSnapshot=false"}})
	const objects = 1200 // three pages
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			for i := w; i < objects; i += 8 {
				if err := b.Ask(t.Context(), http.MethodPost, mapsPath, configMap(fmt.Sprintf("o%d", i), nil), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	kubeconfig, err := b.Kubeconfig("forgetful", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var expired, made atomic.Int64
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return &forgetful{rt, func() {
			b.Must(t, http.MethodPost, mapsPath, configMap(fmt.Sprintf("late%d", made.Add(1)), nil))
			b.Compact(t)
		}, &expired}
	})
	client, err := metadata.New(config, metadata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := follow(t, client, configMaps)
	all := func(s *seen) bool { return s.synced && len(s.objects) >= objects+int(made.Load()) }
	s.until(t, "the list", all)
	if expired.Load() == 0 {
		t.Error("no page has expired: that tests nothing")
	}
	if n := s.count(metadata.Unreadable); n != 0 {
		t.Errorf("unreadable %d times, last: %v", n, s.last)
	}
	t.Logf("%d pages expired, %d lists begun", expired.Load(), s.count(metadata.Listing))
	uid := b.Must(t, http.MethodPost, mapsPath, configMap("after", nil))
	s.until(t, "what came after", has(uid))
}
