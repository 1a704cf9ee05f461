package containerd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	eventsapi "github.com/containerd/containerd/api/events"
	versionapi "github.com/containerd/containerd/api/services/version/v1"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ebb-agent/ebb/runtime/cri"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = time.Second // a local socket: a try costs next to nothing, a delay costs readiness

	// barrierTopic is the topic of the event that confirms a subscription.
	barrierTopic = "/ebb/barrier"
	// barrierRetry is how long to wait for that event before another is published: the one before
	// may have been too early for the subscription.
	barrierRetry = 20 * time.Millisecond
	barrierTime  = 10 * time.Second
)

// topics are the event filters of the subscription. Snapshots are left out: each of ebb's own views
// would cause an event.
var topics = []string{
	`topic~="^/images/"`,
	`topic~="^/containers/(create|delete)$"`,
	`topic~="^/tasks/(start|exit|delete)$"`,
	`topic=="` + barrierTopic + `"`,
}

// Watch sends changes to out until ctx is done. It reconnects for as long as that takes, and
// brackets each gap by EventDown and EventResync: between Resync and the next Down no event is
// lost. A slow receiver delays the stream; nothing is dropped. The end of a container of the CRI may come
// again, before its removal.
func (r *Runtime) Watch(ctx context.Context, out chan<- inventory.Event) error {
	backoff := wait.Backoff{Min: firstBackoff, Max: lastBackoff}
	for first := true; ; first = false {
		live, err := r.watchOnce(ctx, out, first)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if live {
			backoff.Reset()
		}
		if live || first {
			if err := send(ctx, out, inventory.Event{Kind: inventory.EventDown, Err: err}); err != nil {
				return err
			}
		}
		pause := backoff.Next()
		r.log.DebugContext(ctx, "event stream broke", "reason", err, "retry", pause)
		if !wait.Sleep(ctx, wait.Jitter(pause)) {
			return ctx.Err()
		}
	}
}

// watchOnce runs one subscription to its end. live reports whether it got as far as EventResync:
// the subscription was in place, and containerd was identified.
func (r *Runtime) watchOnce(ctx context.Context, out chan<- inventory.Event, first bool) (live bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the client's goroutine, too
	if err := r.awake(ctx); err != nil {
		return false, err
	}
	stream, errs := r.client.Subscribe(ctx, topics...)
	if err := r.barrier(ctx, stream, errs); err != nil {
		return false, err
	}
	if !first {
		// It may be another containerd than before.
		if err := r.identify(ctx); err != nil {
			return false, err
		}
	}
	if err := send(ctx, out, inventory.Event{Kind: inventory.EventResync, At: time.Now()}); err != nil {
		return true, err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { r.watchCRI(ctx, out) })
	defer r.exits.lose()
	for {
		select {
		case envelope := <-stream:
			if e, ok := decode(envelope); ok {
				r.exits.heard(e)
				if err := r.sendWithEnd(ctx, out, e); err != nil {
					return true, err
				}
			}
		case err := <-errs:
			return true, streamError(err)
		}
	}
}

// sendWithEnd sends an event, and before the removal of a container of the CRI its end, if that is known: the
// event of the end may have been lost while the stream was broken.
func (r *Runtime) sendWithEnd(ctx context.Context, out chan<- inventory.Event, e inventory.Event) error {
	if e.Kind == inventory.EventContainer && e.Namespace == criNamespace && !e.Used {
		if at, ok := r.cache.end(e.Container); ok {
			end := inventory.Event{Kind: inventory.EventTask, Namespace: e.Namespace, Container: e.Container, Ended: true, Used: true, At: at}
			if err := send(ctx, out, end); err != nil {
				return err
			}
		}
	}
	return send(ctx, out, e)
}

// watchCRI adds the CRI's own events, if it has them: containerd's event of an exit comes some
// milliseconds before the CRI has recorded it. ebb does not depend on them, so a broken stream is
// only retried.
func (r *Runtime) watchCRI(ctx context.Context, out chan<- inventory.Event) {
	for {
		err := r.cri.Events(ctx, criNamespace, func(e inventory.Event) error { return r.sendWithEnd(ctx, out, e) })
		if ctx.Err() != nil || errors.Is(err, cri.ErrUnimplemented) {
			return
		}
		r.log.DebugContext(ctx, "stream of the CRI's events broke", "reason", err, "retry", lastBackoff)
		if !wait.Sleep(ctx, wait.Jitter(lastBackoff)) {
			return
		}
	}
}

// awake makes gRPC try the socket now, regardless of its own backoff.
func (r *Runtime) awake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r.conn.ResetConnectBackoff()
	_, err := versionapi.NewVersionClient(r.conn).Version(ctx, &emptypb.Empty{}, grpc.WaitForReady(true))
	return wrap("reach containerd", err)
}

// barrier waits until the subscription is in place, which an event of ebb's own shows when it comes
// back. containerd does not confirm subscriptions, and earlier events are lost. Events that arrive
// before the barrier are not delivered: the Resync that follows covers them.
func (r *Runtime) barrier(ctx context.Context, stream <-chan *events.Envelope, errs <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, barrierTime)
	defer cancel()
	publish := namespaces.WithNamespace(ctx, criNamespace)
	mark := &eventsapi.NamespaceUpdate{Name: viewPrefix + r.nonce}
	again := time.NewTicker(barrierRetry)
	defer again.Stop()
	for {
		if err := r.client.EventService().Publish(publish, barrierTopic, mark); err != nil {
			return wrap("publish barrier", err)
		}
		for waiting := true; waiting; {
			select {
			case e := <-stream:
				if e != nil && e.Topic == barrierTopic {
					return nil
				}
			case err := <-errs:
				return streamError(err)
			case <-again.C:
				waiting = false
			case <-ctx.Done():
				return fmt.Errorf("wait for barrier: %w", ctx.Err())
			}
		}
	}
}

func streamError(err error) error {
	if err == nil {
		return errors.New("event stream ended")
	}
	return fmt.Errorf("event stream: %w", err)
}

func send(ctx context.Context, out chan<- inventory.Event, e inventory.Event) error {
	select {
	case out <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
