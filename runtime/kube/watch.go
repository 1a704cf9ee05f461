package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/conn"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// maxBackoff is the longest pause between two attempts.
const maxBackoff = 30 * time.Second

// Run implements Source: it lists the pods, follows what changes, and begins
// anew with a list whenever it cannot.
func (s *APIServer) Run(ctx context.Context, changed chan<- struct{}) error {
	tell := func(really bool) {
		if !really {
			return
		}
		select {
		case changed <- struct{}{}:
		default: // one is waiting to be received, and stands for this one, too
		}
	}
	defer s.client.close()
	pause := s.timing.firstPause
	for {
		began := time.Now()
		err := s.follow(ctx, tell)
		if ctx.Err() != nil {
			s.store.fail(&fault.Fault{Op: s.client.op(allPods), Kind: ErrUnavailable, Text: "not watched any more"})
			return nil
		}
		tell(s.store.fail(err))
		// What was renewed on disk in the meantime counts from the next connection.
		s.client.close()
		if time.Since(began) >= s.timing.settled {
			pause = s.timing.firstPause
		}
		if !wait(ctx, max(conn.Jitter(pause), retryAfter(err))) {
			continue
		}
		pause = min(2*pause, maxBackoff)
	}
}

func retryAfter(err error) time.Duration {
	var answer *answerError
	if errors.As(err, &answer) {
		return answer.retryAfter
	}
	return 0
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// follow lists the pods and watches them until it does not know them any more.
// A watch that merely ended is begun anew where it was. The pods are still
// trusted while that is tried, once.
func (s *APIServer) follow(ctx context.Context, tell func(bool)) error {
	version, err := s.list(ctx, tell)
	if err != nil {
		return err
	}
	for quick := 0; ; {
		began := time.Now()
		begun, err := s.watch(ctx, &version, tell)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !begun || !merelyEnded(err) {
			return err
		}
		// A server that ends every watch at once must not be asked in a circle.
		if time.Since(began) > time.Second {
			quick = 0
		} else if quick++; quick > 3 {
			return &fault.Fault{Op: s.client.op(allPods), Kind: ErrUnavailable, Text: "the watch ends as soon as it begins"}
		}
	}
}

// merelyEnded tells whether a watch ended, was cut or fell silent, as opposed
// to having said something that cannot be followed.
func merelyEnded(err error) bool {
	return !errors.Is(err, ErrMalformed) && !errors.Is(err, errExpired) && !errors.Is(err, ErrUnavailable)
}

func (s *APIServer) query() url.Values {
	return url.Values{"fieldSelector": {"spec.nodeName=" + s.node}}
}

// list reads all pods, and returns where to watch from. It asks for the newest
// state: any older one might lack a pod that was already seen.
func (s *APIServer) list(ctx context.Context, tell func(bool)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timing.call)
	defer cancel()
	resp, err := s.client.get(ctx, allPods, "application/json", s.query())
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	pods := make(map[podName]Pod)
	version, err := decodeList(resp.Body, func(it item) error {
		if it.node != s.node {
			return nonsense("a pod of node %s is in the list of %s", fault.Clean(it.node), s.node)
		}
		name := podName{it.Namespace, it.Name}
		if _, twice := pods[name]; twice {
			return nonsense("pod %s/%s is listed twice", it.Namespace, it.Name)
		}
		pods[name] = it.Pod
		return nil
	})
	if err == nil && !validName(version) {
		err = nonsense("the list has the resource version %s", fault.Clean(version))
	}
	if err != nil {
		return "", s.client.broken(s.client.op(allPods), err)
	}
	tell(s.store.replace(pods))
	return version, nil
}

// watch follows events from version on, which it moves forward. It always
// ends with an error; begun tells whether the server had agreed to the watch.
func (s *APIServer) watch(ctx context.Context, version *string, tell func(bool)) (begun bool, err error) {
	ctx, silence := conn.Listen(ctx, s.timing.connect)
	defer silence.End()
	q := s.query()
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	q.Set("resourceVersion", *version)
	q.Set("timeoutSeconds", strconv.Itoa(int((s.timing.life + rand.N(s.timing.life)).Seconds())))
	resp, err := s.client.get(ctx, allPods, "application/json", q)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = s.client.broken(s.client.op(allPods), cause)
		}
		return false, err
	}
	defer resp.Body.Close()
	events := newEventDecoder(resp.Body)
	for {
		silence.Heard(s.timing.idle)
		e, err := events.next()
		if err == nil {
			var changed bool
			if changed, err = s.store.apply(e); err == nil {
				*version = e.resourceVersion
				tell(changed)
				continue
			}
		}
		if merelyEnded(err) {
			return true, err
		}
		return true, s.client.broken(s.client.op(allPods), err)
	}
}
