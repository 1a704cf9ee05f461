package node

import (
	"context"

	"github.com/ebb-agent/ebb/agent/node/monitor"
)

// worker does what takes long, in a goroutine beside the loop. It holds the monitor while it works, and
// releases it for each call.
type worker struct {
	wake chan struct{}
	due  bool // work was requested, and has not ended since
}

func newWorker() worker { return worker{wake: make(chan struct{}, 1)} }

// want requests work. If the worker is busy, it works once more after that.
func (w *worker) want() {
	w.due = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run is the worker's goroutine. When ctx ends during work, it is up to work to end.
func (w *worker) run(ctx context.Context, m *monitor.Monitor, work func(context.Context)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		m.Do(func() {
			select {
			case <-w.wake: // requested again before it began
			default:
			}
			work(ctx)
			w.due = len(w.wake) > 0
		})
	}
}
