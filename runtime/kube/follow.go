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
	// maxBackoff is the longest pause between two attempts of a cheap request: a watch from a
	// version, or a request for the newest version.
	maxBackoff = 8 * time.Second
	// maxRefused is the longest pause after a 401 or 403, where an administrator must act first.
	maxRefused = 30 * time.Second
	// maxRetryAfter is the longest Retry-After of a server that is obeyed.
	maxRetryAfter = 5 * time.Minute
	// quickEnd is the time within which an ended watch counts as one that ended at once. After
	// more than quickMost of those in a row the pods are no longer known.
	quickEnd  = time.Second
	quickMost = 3
)

// follower is the state of the goroutine of Run.
type follower struct {
	*APIServer
	notify func(really bool)

	version string // to watch from; "": a list is needed
	seen    string // the newest version of any answer; "": none yet

	// A list costs a server the most, and thousands of nodes can need one at once.
	due    time.Time     // when this node may list; zero: not drawn yet
	window time.Duration // from which the last pause before a list was drawn
	shared bool          // the server was down or forgot a version: other nodes need a list, too

	backoff wait.Backoff // before a small request
	quick   int          // watches in a row that ended at once
}

// Run implements Source. It lists the pods and watches them. It lists again only if the server no
// longer knows what happened since the last version.
//
// The pods are known from a list on, as long as the watch after it lives or can be restarted at
// the first attempt. A watch that is silent for 70 seconds is restarted (bookmarks come about
// every minute). On a dead connection the restart fails within 15 more seconds; HTTP/2 pings
// notice it within 45. After any other failure the pods are unknown until a watch from the last
// known version has lasted a second, or until they have been listed again.
//
// Small requests (a watch from a version, the newest version) are repeated within seconds. A list
// waits for its turn: a random moment within [PerNode] for each node. [APIServer.Hurry] ends that
// wait. If the number of nodes is unknown, the first list of a process is immediate, unless the
// server was down. Each failure doubles the pause of small requests, and quadruples that of
// lists. Retry-After is obeyed.
func (s *APIServer) Run(ctx context.Context, changed chan<- struct{}) error {
	f := follower{APIServer: s, backoff: wait.Backoff{Min: s.timing.firstPause}, notify: func(really bool) {
		if !really {
			return
		}
		select {
		case changed <- struct{}{}:
		default: // one is pending, and covers this change, too
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
			// The next connection uses credentials that were renewed on disk in the meantime.
			s.client.close()
		}
		if !wait.Sleep(ctx, pause) {
			s.store.fail(&fault.Fault{Op: s.client.op(allPods), Kind: ErrUnavailable, Text: "not watched any more"})
			return nil
		}
	}
}

// begin lists the pods if this node's turn has come. Otherwise it waits for the turn, and returns
// without an error so that Run calls it again.
func (f *follower) begin(ctx context.Context) (pause time.Duration, err error) {
	newest, err := f.newest(ctx)
	if err != nil {
		// The server is down for other nodes, too.
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
	case <-f.hurry: // this list answers the call of Hurry
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

// await waits for this node's turn, for left at most, or until Hurry is called.
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

// spreadNow returns the time over which all nodes list their pods if they need it now.
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

// nodes returns how many nodes should run an agent, from the status of the agents' DaemonSet in
// the server's cache. The number can be some seconds old.
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

// again returns the pause before a small request is repeated: seconds, or up to maxRefused after
// a 401 or 403. The jitter keeps nodes that the server sent away with Retry-After from coming
// back at the same moment.
func (f *follower) again(err error) time.Duration {
	most := f.timing.maxPause
	if errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrForbidden) {
		most = max(most, maxRefused)
	}
	f.backoff.Max = most
	return fault.RetryAfter(err) + wait.Jitter(f.backoff.Next())
}
