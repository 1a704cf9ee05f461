package gate

import (
	"context"
	"log/slog"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/breaker"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Outcome is how an action went. A Deferred action may be requested again at RetryAt, in a batch of
// its root. If RetryAt is zero, it may be requested again once deletions are no longer held.
type Outcome struct {
	metadata.Outcome
	Sent    bool
	RetryAt time.Time
	Batch   int
}

// Do executes an action if it is admitted, and returns how it went.
func (g *Gate) Do(ctx context.Context, a gc.Action) Outcome {
	begun := time.Now()
	why, taken := g.Admit(begun, a)
	if why == "" {
		o := g.execute(ctx, a, taken)
		g.Report(a, o.Result.String(), o, begun)
		return Outcome{Outcome: o, Sent: true}
	}
	g.Report(a, why, metadata.Outcome{}, begun)
	p := Outcome{RetryAt: taken.RetryAt, Batch: taken.Batch}
	switch why {
	case Observed, Excluded:
		p.Result = gc.Withheld
	case Tripped, Slowed, Unsaved, Unconfirmed:
		p.Result = gc.Deferred
	case Uncertain:
		p.Result = gc.TooMany // retried soon
	default:
		p.Result = gc.Failed
	}
	return p
}

// execute carries out an admitted action.
func (g *Gate) execute(ctx context.Context, a gc.Action, taken breaker.Grant) metadata.Outcome {
	if a.Verb != gc.DeleteVolume {
		o := g.api.Do(ctx, a, a.Object.Namespace != "")
		g.Finish(taken, o.Result)
		return o
	}
	o, asked := g.volumes.Delete(ctx, a)
	r := gc.Conflict
	if asked {
		r = gc.Done // the driver may have done it, whatever it answered
	}
	g.Finish(taken, r)
	return o
}

// Finish ends a request. A deletion that the API server did not carry out does not count.
func (g *Gate) Finish(taken breaker.Grant, r gc.Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch r {
	case gc.Conflict, gc.Gone, gc.Forbidden, gc.TooMany:
		g.breaker.Return(taken)
	}
	if g.inFlight--; g.inFlight == 0 {
		g.idle.Broadcast()
	}
}

// Report adds an action to the decision log, the metrics and the log.
func (g *Gate) Report(a gc.Action, result string, o metadata.Outcome, begun time.Time) {
	if a.Verb == gc.Record || a.Verb == gc.Withdraw {
		g.metrics.action(a, result)
		return // no change of the object
	}
	switch {
	case o.Throttled, result == Paused, result == Closed, result == Tripped, result == Slowed, result == Unsaved, result == Uncertain, result == Unconfirmed:
		g.metrics.action(a, result)
		return // it is only deferred: the collector requests it again
	}
	g.decisions.add(a, result, o, begun)
	g.metrics.action(a, result)
	level, message := slog.LevelDebug, "patched"
	switch done := result == Observed || o.Result == gc.Done && o.Err == nil; {
	case done && IsDeletion(a):
		level, message = slog.LevelInfo, "deleted"
	case done && a.Verb == gc.FailPod:
		level, message = slog.LevelInfo, "marked as failed"
	case o.Result == gc.Failed || o.Result == gc.Forbidden:
		level, message = slog.LevelWarn, "refused"
	}
	if result == Observed {
		message = "would have been " + message
	}
	if !g.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("collector", a.Collector.String()), slog.String("reason", string(a.Reason)), slog.String("verb", a.Verb.String()), slog.String("result", result),
		slog.String("apiVersion", a.Object.APIVersion), slog.String("kind", a.Object.Kind), slog.String("namespace", a.Object.Namespace),
		slog.String("name", a.Object.Name), slog.String("uid", a.Object.UID), slog.String("policy", string(a.Policy)),
		slog.String("owner_kind", a.Owner.Kind), slog.String("owner", a.Owner.Name), slog.String("owner_uid", a.Owner.UID),
	}
	if a.Root != a.Owner && a.Root.UID != "" {
		attrs = append(attrs, slog.String("root", Describe(a.Root)), slog.String("root_uid", a.Root.UID))
	}
	if o.Err != nil {
		attrs = append(attrs, slog.String("error", o.Err.Error()))
	}
	g.log.LogAttrs(context.Background(), level, message, attrs...)
}
