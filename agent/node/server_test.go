package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/node/config"
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
