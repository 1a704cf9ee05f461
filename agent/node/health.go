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

// deadAfter is how long the agent may show no sign of life, or a call of a worker
// may take: each is bounded well below it (a removal: two minutes).
const deadAfter = 5 * time.Minute

// health is whether the agent lives, and does its job. Any goroutine may use it.
type health struct {
	monitor    *monitor.Monitor
	boot       func() time.Duration // CLOCK_BOOTTIME
	mode       config.Mode
	conditions *condition.Set
	ready      prometheus.Gauge

	// notReady says what /readyz lacks; nil if nothing.
	notReady atomic.Pointer[string]

	// beat is the CLOCK_BOOTTIME of the loop's last sign of life, for /healthz.
	beat atomic.Int64

	mu    sync.Mutex
	calls map[*time.Duration]bool // CLOCK_BOOTTIME at which each call began that a worker waits for
}

func newHealth(r *prometheus.Registry, m *monitor.Monitor, boot func() time.Duration, mode config.Mode, conditions *condition.Set) *health {
	f := program.Factory{Registry: r, Subsystem: "node"}
	return &health{
		monitor: m, boot: boot, mode: mode, conditions: conditions, calls: make(map[*time.Duration]bool),
		ready: f.Gauge("ready", "1 while the agent is ready, as /readyz reports."),
	}
}

// alive is a sign of life.
func (h *health) alive() { h.beat.Store(int64(h.boot())) }

// outside is for the workers: it calls f, a call of the runtime, the API server or a disk,
// without the monitor.
func (h *health) outside(f func()) {
	begun := h.boot()
	h.mu.Lock()
	h.calls[&begun] = true
	h.mu.Unlock()
	h.monitor.Outside(f)
	h.mu.Lock()
	delete(h.calls, &begun)
	h.mu.Unlock()
	h.alive()
}

// longest is how long the oldest call of a worker has been going on.
func (h *health) longest() (longest time.Duration) {
	now := h.boot()
	h.mu.Lock()
	defer h.mu.Unlock()
	for begun := range h.calls {
		longest = max(longest, now-*begun)
	}
	return longest
}

// setReady tells /readyz what is missing, "" for nothing.
func (h *health) setReady(missing string) {
	if missing == "" {
		h.notReady.Store(nil)
		h.ready.Set(1)
		return
	}
	h.notReady.Store(&missing)
	h.ready.Set(0)
}

// healthz is whether the process should live on: it answers when asked, or has moved
// lately, and waits for no call without end.
func (h *health) healthz(w http.ResponseWriter, r *http.Request) {
	err := inTurn(r.Context(), h.monitor, func() {})
	switch quiet, calling := h.boot()-time.Duration(h.beat.Load()), h.longest(); {
	case err != nil && quiet > deadAfter:
		http.Error(w, fmt.Sprintf("the agent's main loop has been stuck for %s", quiet.Round(time.Second)), http.StatusServiceUnavailable)
	case calling > deadAfter:
		http.Error(w, fmt.Sprintf("a call to the container runtime, the API server or a disk has not returned for %s", calling.Round(time.Second)), http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok")
	}
}

// readyz is whether the agent does its job. It names what is missing, what the agent does without, and
// that it only observes.
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
