package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/node"
)

// kubelet answers as one whose only pod waits to start from an image, until it hangs.
type kubelet struct {
	*httptest.Server
	image atomic.Value // its name, a string
	hangs atomic.Bool
	end   chan struct{}
}

func (b *fixture) startKubelet(image string) *kubelet {
	k := &kubelet{end: make(chan struct{})}
	k.image.Store(image)
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case k.hangs.Load():
			select {
			case <-r.Context().Done():
			case <-k.end:
			}
		case r.URL.Path == "/metrics":
			io.WriteString(w, "kubelet_desired_pods{static=\"\"} 1\n")
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"waits","namespace":"default","uid":"u-1"},`+
				`"spec":{"containers":[{"name":"app","image":%q}]},"status":{"phase":"Pending"}}]}`, k.image.Load())
		}
	}))
	b.Cleanup(func() {
		close(k.end)
		k.Close()
	})
	b.config.Pods.Source, b.config.Pods.Kubelet.URL = config.PodsFromKubelet, k.URL
	return k
}

// TestPodsUnknownAfterRestart: the agent is killed in need of space, the source of pods
// hangs from then on. What pods wanted stays, and what came since; the rest goes.
func TestPodsUnknownAfterRestart(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.V2, plains("a", 4)...)
	k := b.startKubelet(ref("a0"))
	b.start()
	b.use("a0", "a1", "a2", "a3") // a0 is the first to go
	b.awaitOrder()
	b.awaitReason("a0", "wanted")
	b.kill()

	k.hangs.Store(true)
	b.importImages(plain("since", layerBytes))
	b.fill(97)
	mark := b.journal.mark()
	b.start()
	line := b.journal.await(t, mark, "the pods of this node are not known; none is treated as gone")
	if line.Text("images") == "" {
		t.Error("what counts meanwhile is not logged")
	}
	b.journal.await(t, mark, "the low threshold cannot be reached; holding")
	b.mustStay("a0", "since")
	b.awaitReason("a0", "wanted")
	b.awaitReason("since", "pods_unknown")
	if got := b.removedNames(mark); fmt.Sprint(got) != "[a1 a2 a3]" {
		t.Errorf("FINAL: removed %v", got)
	}

	k.hangs.Store(false)
	removed := b.journal.await(t, mark, "image removed")
	b.eventually("the image that came since to go", func() error {
		if got := b.removedNames(mark); fmt.Sprint(got) != "[a1 a2 a3 since]" {
			return fmt.Errorf("removed %v, the first by %v", got, removed.Text("reason"))
		}
		return nil
	})
	b.mustStay("a0")
}
