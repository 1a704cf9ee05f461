package events

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

type posted []string

func (p *posted) Warn(_ context.Context, n metadata.Notice) error {
	*p = append(*p, n.Message)
	return nil
}

// Warnings that are muted use up nothing of what an object may have.
func TestMutedIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		muted, got := true, new(posted)
		r := New(Options{
			API: got, Log: slog.New(slog.DiscardHandler), Muted: func(string) bool { return muted },
			Count: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "events"}, []string{"reason", "result"}),
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		warn := func(message string, times int) {
			for range times {
				r.Warn(gc.Coordinates{UID: "uid"}, Excluded, message)
				synctest.Wait()
			}
		}
		warn("muted", 2*burst)
		if len(*got) != 0 {
			t.Errorf("posted while muted: %q", *got)
		}
		muted = false
		warn("heard", burst+5)
		if len(*got) != burst {
			t.Errorf("%d events, want %d", len(*got), burst)
		}
		cancel()
		synctest.Wait()
	})
}
