package node

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/monitor"
	"github.com/ebb-agent/ebb/agent/program"
)

// deadAfter is how long the monitor may be waited for, and how long a call of a worker may take.
// Each call has a bound well below it (a removal: two minutes).
const deadAfter = 5 * time.Minute

// health answers /healthz and /readyz. Any goroutine may use it.
type health struct {
	monitor    *monitor.Monitor
	boot       func() time.Duration // CLOCK_BOOTTIME
	mode       config.Mode
	conditions *condition.Set
	ready      prometheus.Gauge

	// notReady is why the agent is not ready, for /readyz; nil if it is.
	notReady atomic.Pointer[string]

	turn program.Turn // at the monitor, for /healthz

	mu    sync.Mutex
	calls map[*time.Duration]bool // calls that workers wait for, by the CLOCK_BOOTTIME of their beginning
}

func newHealth(r *prometheus.Registry, m *monitor.Monitor, boot func() time.Duration, mode config.Mode, conditions *condition.Set) *health {
	f := program.Factory{Registry: r, Subsystem: "node"}
	return &health{
		monitor: m, boot: boot, mode: mode, conditions: conditions, calls: make(map[*time.Duration]bool),
		ready: f.Gauge("ready", "1 while the agent is ready, as /readyz reports."),
	}
}

// outside calls f without the monitor. It is for the workers: f is a call of the runtime, the API
// server or a disk.
func (h *health) outside(f func()) {
	begun := h.boot()
	h.mu.Lock()
	h.calls[&begun] = true
	h.mu.Unlock()
	h.monitor.Outside(f)
	h.mu.Lock()
	delete(h.calls, &begun)
	h.mu.Unlock()
}

// longest returns how long the oldest call of a worker has taken so far.
func (h *health) longest() (longest time.Duration) {
	now := h.boot()
	h.mu.Lock()
	defer h.mu.Unlock()
	for begun := range h.calls {
		longest = max(longest, now-*begun)
	}
	return longest
}

// setReady sets what is missing for /readyz; "" means ready.
func (h *health) setReady(missing string) {
	if missing == "" {
		h.notReady.Store(nil)
		h.ready.Set(1)
		return
	}
	h.notReady.Store(&missing)
	h.ready.Set(0)
}

// healthz serves /healthz, and waits for nothing. It fails if the monitor was never free for deadAfter, or if a
// worker's call takes longer than deadAfter.
func (h *health) healthz(w http.ResponseWriter, _ *http.Request) {
	waits, calling := h.turn.Waits(h.boot(), func() { h.monitor.Do(func() {}) }), h.longest()
	switch {
	case waits > deadAfter:
		http.Error(w, fmt.Sprintf("the agent's main loop has been stuck for %s", waits.Round(time.Second)), http.StatusServiceUnavailable)
	case calling > deadAfter:
		http.Error(w, fmt.Sprintf("a call to the container runtime, the API server or a disk has not returned for %s", calling.Round(time.Second)), http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

// readyz serves /readyz. If the agent is not ready, the answer lists what is missing. Otherwise it names
// the conditions that degrade the agent, and mode observe.
func (h *health) readyz(w http.ResponseWriter, _ *http.Request) {
	problems := h.notReady.Load()
	if problems == nil {
		text := "ok"
		if h.mode == config.ModeObserve {
			text += " (observe: nothing is removed until mode is enforce)"
		}
		if without := h.conditions.Names(); len(without) > 0 {
			text += " (degraded: " + strings.Join(without, ", ") + ")"
		}
		fmt.Fprintln(w, text)
		return
	}
	http.Error(w, *problems, http.StatusServiceUnavailable)
}
