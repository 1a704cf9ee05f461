package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/program"
)

// loop is how other goroutines reach the one that owns the graph.
type loop struct {
	inputs chan input
	ended  chan struct{} // closed when the loop has ended
	leads  atomic.Bool   // the loop runs
	turn   program.Turn  // for /healthz
}

// input is something for the loop to do; done receives when the loop has done it.
type input struct {
	do   func(now time.Time)
	done chan<- struct{}
}

func newLoop() loop { return loop{inputs: make(chan input), ended: make(chan struct{})} }

// do runs a function in the loop, and returns when it has run. An error means that the loop has
// ended, or that ctx ended before the function began.
func (l *loop) do(ctx context.Context, do func(now time.Time)) error {
	return l.doVia(ctx, make(chan struct{}, 1), do)
}

// doVia is do with a channel of the caller's, of capacity 1.
func (l *loop) doVia(ctx context.Context, done chan struct{}, do func(now time.Time)) error {
	select {
	case l.inputs <- input{do, done}:
		<-done // until then the loop reads the caller's data
		return nil
	case <-l.ended:
		return errIdle
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quiet returns for how long something has waited for the loop in vain. It waits for nothing itself.
func (l *loop) quiet() time.Duration {
	now := time.Duration(time.Now().UnixNano())
	return l.turn.Waits(now, func() { _ = l.do(context.Background(), func(time.Time) {}) }) // ends with the loop
}

// query is do with a wait of at most answerWait until the function begins. It returns errIdle if
// the loop does not run.
func (l *loop) query(ctx context.Context, do func(now time.Time)) error {
	if !l.leads.Load() {
		return errIdle
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	return l.do(ctx, do)
}
