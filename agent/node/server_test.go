package node

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/image"
)

// TestReadySaysThatItObserves: who looks whether it works is told that it removes
// nothing, and what it would take.
func TestReadySaysThatItObserves(t *testing.T) {
	for mode, want := range map[config.Mode]string{
		config.Default().Mode: "ok (observe: nothing is removed until mode is enforce)\n",
		config.ModeEnforce:    "ok\n",
	} {
		a := &Agent{cfg: config.Config{Mode: mode}}
		w := httptest.NewRecorder()
		a.readyz(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%s: %d %q, want %q", mode, w.Code, w.Body, want)
		}
		missing := "no runtime"
		a.notReady.Store(&missing)
		w = httptest.NewRecorder()
		a.readyz(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), missing) {
			t.Errorf("%s, not ready: %d %q", mode, w.Code, w.Body)
		}
	}
}

// What cannot be read is missing in a scrape, which says so, and takes nothing else away.
func TestScrapeWithoutWhatCannotBeRead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.disk.mount("/var/lib/kubelet", otherDev, "ext4", func() image.Disk { return image.Disk{CapacityBytes: size, AvailableBytes: size} })
		w.pass(time.Second)
		scrape := func() string {
			r := httptest.NewRecorder()
			program.Metrics(w.agent.metrics.Registry).ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			if r.Code != http.StatusOK {
				t.Fatalf("status %d: %s", r.Code, r.Body)
			}
			return r.Body.String()
		}
		check := func(readable int) {
			t.Helper()
			body := scrape()
			for _, line := range []string{
				fmt.Sprintf(`ebb_node_filesystem_readable{filesystem="kubelet"} %d`, readable),
				fmt.Sprintf(`ebb_node_kernel_counts_readable{counts="writers"} %d`, readable),
				fmt.Sprintf(`ebb_node_kernel_counts_readable{counts="heat"} %d`, readable),
				`ebb_node_kernel_counts_readable{counts="events"} 1`,
				`ebb_node_filesystem_readable{filesystem="images"} 1`,
				`ebb_node_filesystem_capacity_bytes{filesystem="images"} 1.048576e+09`,
				`ebb_node_filesystem_line_percent{filesystem="kubelet",line="high",resource="bytes"} 85`,
				`ebb_node_ready 1`,
			} {
				if !strings.Contains(body, line+"\n") {
					t.Errorf("no %s", line)
				}
			}
			if got := strings.Contains(body, `capacity_bytes{filesystem="kubelet"}`); got != (readable == 1) {
				t.Errorf("its capacity is exported: %v", got)
			}
		}
		check(1)
		w.disk.mu.Lock() // nobody is told
		was := w.disk.mounts["/var/lib/kubelet"]
		delete(w.disk.mounts, "/var/lib/kubelet")
		w.disk.mu.Unlock()
		w.kernel.failWriters, w.kernel.failHeat = errors.New("no writers"), errors.New("no heat")
		check(0)
		w.disk.mu.Lock()
		w.disk.mounts["/var/lib/kubelet"] = was
		w.disk.mu.Unlock()
		w.kernel.failWriters, w.kernel.failHeat = nil, nil
		check(1)
	})
}
