package node

import (
	"context"

	"github.com/ebb-agent/ebb/agent/node/monitor"
)

// worker does beside the loop what takes long. It holds the monitor, and goes outside for
// each call.
type worker struct {
	wake chan struct{}
	due  bool // it was asked for, and has not ended since
}

func newWorker() worker { return worker{wake: make(chan struct{}, 1)} }

// want has it work; if it is at work, once more after that.
func (w *worker) want() {
	w.due = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run is its goroutine. Work that has begun when ctx ends is ended by the work itself.
func (w *worker) run(ctx context.Context, m *monitor.Monitor, work func(context.Context)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		m.Do(func() {
			select {
			case <-w.wake: // asked for twice before it began
			default:
			}
			work(ctx)
			w.due = len(w.wake) > 0
		})
	}
}
