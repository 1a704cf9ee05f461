package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	// maxBackoff is the longest pause between two attempts to do what costs a server
	// little: to watch from a version, to ask for the newest one.
	maxBackoff = 8 * time.Second
	// maxRefused is the same where somebody has to act first: a right is missing.
	maxRefused = 30 * time.Second
	// maxRetryAfter bounds how long a server can send a client away.
	maxRetryAfter = 5 * time.Minute
	// quickEnd is how long a watch must live not to count as one that ended at once;
	// after quickMost of those in a row the pods are not known any more.
	quickEnd  = time.Second
	quickMost = 3
)

// follower is where the goroutine of Run is with one API server.
type follower struct {
	*APIServer
	notify func(really bool)

	version string // where the watch goes on; "": only a list can tell
	seen    string // the newest version of any answer; "": none yet

	// A list is what costs a server most, and thousands of nodes can want one at once.
	due    time.Time     // when its turn is; zero: not drawn yet
	window time.Duration // what the latest pause before it was drawn from
	shared bool          // the server was away, or has forgotten a version: other nodes want one, too

	backoff wait.Backoff // before a small request
	quick   int          // watches in a row that ended at once
}

// Run implements Source: it lists the pods and follows what changes. It lists them
// anew only if the server does not know any more what happened since.
//
// The pods are known from a list on, and as long as the watch after it lives or can be
// begun anew at the first attempt. A watch that says nothing for 70 seconds (bookmarks
// come about every minute) is begun anew, and one on a dead connection fails within 15
// more; HTTP/2 pings notice it in 45. After anything else the pods are not known until a
// watch from where they were last known has gone on for a second, or until they have been
// listed anew.
//
// Small requests (a watch from a version, the newest version) are repeated within
// seconds, a list when its turn comes: at a random moment within [PerNode] for each node, or
// at once after [APIServer.Hurry]. If the number of nodes is not known, the first list
// of a process comes at once, unless the server was away. Failures double pauses, those of
// lists four times over, and Retry-After is obeyed.
func (s *APIServer) Run(ctx context.Context, changed chan<- struct{}) error {
	f := follower{APIServer: s, backoff: wait.Backoff{Min: s.timing.firstPause}, notify: func(really bool) {
		if !really {
			return
		}
		select {
		case changed <- struct{}{}:
		default: // one is waiting to be received, and stands for this one, too
		}
	}}
	defer s.client.close()
	for {
		step := f.resume
		if f.version == "" {
			step = f.begin
		}
		pause, err := step(ctx)
		if err != nil && ctx.Err() == nil {
			f.notify(s.store.fail(err))
			// What was renewed on disk in the meantime counts from the next connection.
			s.client.close()
		}
		if !wait.Sleep(ctx, pause) {
			s.store.fail(&fault.Fault{Op: s.client.op(allPods), Kind: ErrUnavailable, Text: "not watched any more"})
			return nil
		}
	}
}

// begin lists the pods when it is their turn. It returns without an error when its wait for
// that is over.
func (f *follower) begin(ctx context.Context) (pause time.Duration, err error) {
	newest, err := f.newest(ctx)
	if err != nil {
		// The server is away, and so it is for others.
		f.shared, f.due = true, time.Time{}
		return f.again(err), err
	}
	f.backoff.Reset()
	if f.due.IsZero() {
		f.window = f.spreadNow(ctx)
		f.due = time.Now().Add(time.Duration(rand.Float64() * float64(f.window)))
	}
	if left := time.Until(f.due); left > 0 {
		f.await(ctx, left)
		return 0, nil
	}
	select {
	case <-f.hurry: // answered by this list
	default:
	}
	if f.version, err = f.list(ctx, newest); err != nil {
		f.window = min(max(4*f.window, f.timing.firstWindow), max(f.window, f.timing.maxWindow))
		pause = max(f.window/2+rand.N(f.window), fault.RetryAfter(err))
		f.due = time.Now().Add(pause)
		return pause, err
	}
	f.shared, f.due = true, time.Time{}
	return 0, nil
}

// await waits for this node's turn, or until somebody cannot wait for it.
func (f *follower) await(ctx context.Context, left time.Duration) {
	f.notify(f.store.wait(&fault.Fault{Op: f.client.op(allPods), Kind: ErrUnavailable,
		Cause: fmt.Errorf("%w: it answers, and this node's turn comes within %v", ErrNotYet, f.window.Round(time.Second/10))}))
	f.client.close()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-f.hurry:
		f.due = time.Now()
	}
}

// spreadNow is within what time all nodes list their pods if they need it now.
func (f *follower) spreadNow(ctx context.Context) time.Duration {
	if f.spread > 0 {
		return f.spread
	}
	nodes, err := f.nodes(ctx)
	switch {
	case err == nil:
		return time.Duration(nodes) * PerNode
	case f.shared:
		return f.timing.unknownSpread
	}
	return 0
}

// maxNodes is more than any cluster has.
const maxNodes = 100_000

// nodes returns how many nodes are to run an agent, from the status of the agents' DaemonSet as the
// server's cache has it. The number can be some seconds old.
func (s *APIServer) nodes(ctx context.Context) (int, error) {
	if s.daemonSet == "" {
		return 0, errors.New("the agents' DaemonSet is not known")
	}
	ctx, cancel := context.WithTimeout(ctx, s.timing.call)
	defer cancel()
	var set struct {
		Status struct {
			Desired *int `json:"desiredNumberScheduled"`
		} `json:"status"`
	}
	if err := s.client.read(ctx, s.daemonSet, url.Values{"resourceVersion": {"0"}}, &set); err != nil {
		return 0, err
	}
	n := set.Status.Desired
	if n == nil || *n < 0 || *n > maxNodes {
		return 0, s.client.broken(s.client.op(s.daemonSet), fault.Nonsense("the answer is no DaemonSet with a number of nodes"))
	}
	return *n, nil
}

// again is how long to wait before a small request is repeated: within seconds, but
// where somebody has to act first. Who was sent away by the server for a while does not
// come back at the same moment as all the others.
func (f *follower) again(err error) time.Duration {
	most := f.timing.maxPause
	if errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrForbidden) {
		most = max(most, maxRefused)
	}
	f.backoff.Max = most
	return fault.RetryAfter(err) + wait.Jitter(f.backoff.Next())
}
