package cluster

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/breaker"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Why the gate refuses an action. An action that passes has the result of its request.
const (
	resultObserved = "observed" // mode observe: only logged
	resultPaused   = "paused"
	resultTripped  = "breaker_open"
	resultSlowed   = "slowed"  // its cascade has spent its envelope
	resultUnsaved  = "unsaved" // how many there were is to be written down first
	resultExcluded = "excluded"
	resultClosed   = "closed" // the controller ends, or does not lead any more
	// resultUnrecorded: the finalizer orphan stays, because the journal does not have its
	// object.
	resultUnrecorded = "unrecorded"
	// resultUnconfirmed: etcd was restored, and nobody has confirmed what stands there now.
	resultUnconfirmed = "restored"
	resultUncertain   = "unsure" // the API server was away: what was decided may rest on another history
)

// pauseTimeout is how long a pause waits for what is on its way.
const pauseTimeout = 5 * time.Second

// gate is what every change to the cluster passes: each deletion and each patch. Mode,
// pause, circuit breaker, exclusions, the log of decisions and the metrics of what is done
// live here and nowhere else. Workers pass it concurrently.
//
// A pause is in force when the call returns; requests in flight are waited for. The
// circuit breaker (package breaker) counts deletions before they are sent, so it never
// admits one too many. It holds deletions only, all of them or those of one root owner,
// and these wait in the graph, not in a worker. One request about an excluded object
// passes: the removal of a collector's finalizer from an object that somebody deleted. In
// mode observe the collector learns that an action was withheld, and does not ask again
// until the object changes.
type gate struct {
	api             API
	log             *slog.Logger
	metrics         *Metrics
	events          *eventRecorder
	decisions       decisionLog
	volumes         *deleter
	unreadableTypes atomic.Pointer[string] // for messages

	mu        sync.Mutex
	leaseHeld func() bool // the Lease, by the clock; nil: there is none
	config    config.Config
	exclude   map[string]bool // namespaces
	paused    bool            // by hand; the configuration's switch is another
	tripped   bool
	// restored: etcd was, and no person has confirmed what came back.
	unconfirmed bool
	loading     bool // how the last leader left it: see saver
	// What the journal of orphaned owners has is known, and this process writes it.
	journalRead, journalOwned bool
	inJournal                 func(uid string) bool // an owner stands in the journal
	notifySaver               func()                // informs the saver
	closed                    bool
	breaker                   breaker.Breaker
	inFlight                  int
	idle                      *sync.Cond // sending became 0
}

func newGate(o Options, h *eventRecorder) *gate {
	d := &gate{api: o.API, log: o.Log, metrics: o.Metrics, events: h, loading: o.State != nil, notifySaver: func() {}, inJournal: func(string) bool { return false }}
	d.idle = sync.NewCond(&d.mu)
	d.volumes = newDeleter(o, d)
	d.configure(o.Config)
	return d
}

// configure takes another configuration; what is on its way goes on.
func (g *gate) configure(c config.Config) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.config = c
	g.exclude = make(map[string]bool, len(c.Exclude.Namespaces))
	for _, name := range c.Exclude.Namespaces {
		g.exclude[name] = true
	}
	g.volumes.configure(c.Collectors.Volumes)
	g.breaker.Set(breaker.Limits{Deletions: c.CircuitBreaker.Deletions, Window: time.Duration(c.CircuitBreaker.Window),
		Cascade: breaker.Rate(c.Envelope), Collector: breaker.Rate(c.CollectorEnvelope)})
	g.updateMetrics()
}

// settings are those in force.
func (g *gate) settings() config.Config {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.config
}

// open says whether anything would be let through, so that nobody asks for what
// would not.
func (g *gate) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.closed && !g.halted()
}

func (g *gate) halted() bool {
	return g.loading || g.journalUnread() || g.paused || g.config.Paused
}

// sure says whether the watched state may be acted on.
func (g *gate) sure() bool {
	sure, _ := g.api.Sure()
	return sure
}

// unread says whether it is not known yet who was orphaned: then an orphan could be
// deleted.
func (g *gate) journalUnread() bool {
	mode := g.config.ModeOf(gc.Owners)
	return mode != config.Off && !g.journalOwned && (mode == config.Enforce || !g.journalRead)
}

// setJournal notes whether the journal of orphaned owners was read, and whether nobody
// else writes it.
func (g *gate) setJournal(read, taken bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.journalRead, g.journalOwned = read, taken
}

// ownersObserved says whether nothing is changed because of owners.
func (g *gate) ownersObserved() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.config.ModeOf(gc.Owners) != config.Enforce
}

// deletionsHeld says whether none would be let through, whatever its cascade.
func (g *gate) deletionsHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.config.Mode == config.Enforce && (g.tripped || g.breaker.Exhausted())
}

func (g *gate) updateMetrics() {
	g.metrics.observing.Set(boolGauge(g.config.Mode == config.Observe))
	for _, name := range collectorNames() {
		g.metrics.enforcing.WithLabelValues(name.String()).Set(boolGauge(g.config.ModeOf(name) == config.Enforce))
	}
	g.metrics.paused.Set(boolGauge(g.paused || g.config.Paused))
	g.metrics.tripped.Set(boolGauge(g.tripped))
	g.metrics.unconfirmed.Set(boolGauge(g.awaitsConfirmation()))
}

// admit says why an action is refused; "" admits it, and then finish ends it. The circuit
// breaker holds deletions only.
func (g *gate) admit(now time.Time, a gc.Action) (string, breaker.Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why := g.refusal(a)
	switch {
	case why != "":
		return why, breaker.Grant{}
	case !isDeletion(a):
		g.inFlight++
		return "", breaker.Grant{}
	case g.tripped:
		return resultTripped, breaker.Grant{}
	}
	taken := g.breaker.Acquire(now, a.Root)
	if g.breaker.SaveDue(now) || g.breaker.FirstUnsaved() {
		g.notifySaver()
	}
	switch taken.Verdict {
	case breaker.Exceeded:
		g.trip(now, a)
		return resultTripped, breaker.Grant{}
	case breaker.Unsaved:
		return resultUnsaved, taken
	case breaker.Slowed:
		if taken.First {
			g.reportSlowed(a, taken)
		}
		return resultSlowed, taken
	}
	g.inFlight++
	return "", taken
}

// refusal says why an action is refused, whatever the counts are; "" if it is not. The
// caller holds the lock.
func (g *gate) refusal(a gc.Action) string {
	switch {
	case g.closed || g.leaseHeld != nil && !g.leaseHeld():
		return resultClosed
	case a.Verb != gc.Record && a.Verb != gc.Withdraw && g.excluded(a.Object) && a.Verb != gc.RemoveFinalizer: // of one that somebody deleted
		return resultExcluded
	case a.Verb == gc.DeleteVolume && g.exclude[a.Owner.Namespace]: // its claim's
		return resultExcluded
	case g.unconfirmed && registered(a.Collector).confirmed:
		return resultUnconfirmed
	case g.config.ModeOf(a.Collector) != config.Enforce:
		return resultObserved
	case g.halted():
		return resultPaused
	case !g.sure():
		return resultUncertain
	case a.Verb == gc.RemoveFinalizer && a.Finalizer == gc.OrphanFinalizer && !g.inJournal(a.Object.UID):
		return resultUnrecorded
	}
	return ""
}

// finish ends a request. A deletion that the API server did not carry out does not count.
func (g *gate) finish(taken breaker.Grant, r gc.Result) {
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

func (g *gate) excluded(o gc.Coordinates) bool {
	return o.Namespace != "" && g.exclude[o.Namespace] ||
		config.Patterns(g.config.Exclude.Types).Match(o.Resource, gc.GroupOf(o.APIVersion))
}

// pause lets nothing through from now on, and waits a moment for what is on its
// way. left says how much still is.
func (g *gate) pause(ctx context.Context) (left int) {
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.idle.Broadcast()
	})
	defer stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.paused {
		g.log.Warn("paused: nothing is sent", "reason", "by hand")
	}
	g.paused = true
	g.updateMetrics()
	for g.inFlight > 0 && ctx.Err() == nil {
		g.idle.Wait()
	}
	return g.inFlight
}

// resume ends a pause by hand and closes the circuit breaker, whose counts begin at zero:
// a person has checked. still says what holds the gate nevertheless.
func (g *gate) resume() (still string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused || g.tripped {
		g.log.Info("going on", "reason", "by hand", "was_paused", g.paused, "breaker_was_open", g.tripped)
	}
	if g.tripped {
		g.breaker.Reset()
	}
	g.paused, g.tripped = false, false
	g.updateMetrics()
	if g.config.Paused {
		return "the configuration says paused: true"
	}
	if g.loading {
		return "it is not known yet whether it was paused, or its circuit breaker open before it was started"
	}
	return ""
}

// close refuses everything from now on.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// muted says whether not even an event is to be created. Those of the circuit breaker and of
// envelopes are of all collectors, the others of owners.
func (g *gate) muted(reason string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	ofAll := reason == eventTripped || reason == eventSlowed
	return g.closed || g.halted() || g.config.Mode == config.Observe || !ofAll && g.config.ModeOf(gc.Owners) != config.Enforce
}

// stateText says for people what stops everything, and what waits for a person.
func (g *gate) stateText() string {
	words := g.haltReasons()
	if g.awaitsConfirmationNow() {
		words = append(words, "etcd was restored: nodes and volumes wait for ebb control confirm-restore")
	}
	return strings.Join(words, ", ")
}

// haltReasons say why nothing is sent at all.
func (g *gate) haltReasons() (words []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range []struct {
		is   bool
		word string
	}{
		{g.config.Mode == config.Observe, "observe: nothing is changed until mode is enforce"}, {g.paused, "paused by hand"},
		{g.config.Paused, "paused by configuration"}, {g.tripped, "circuit breaker open: too many deletions"},
		{g.loading, "asking how it was left"}, {g.journalUnread(), "reading the journal of orphaned owners"}, {g.closed, "ending"}, {!g.sure(), "the API server was away: nothing is sent until each type has caught up"},
		{g.breaker.Exhausted() && !g.loading && !g.closed, "deletions wait until it is written down how many there were"},
	} {
		if s.is {
			words = append(words, s.word)
		}
	}
	return words
}

// gateResult is how an action went. One that is Deferred may be asked for again at retryAt,
// in a batch of its root; if retryAt is zero, once deletions are not held any more.
type gateResult struct {
	metadata.Outcome
	sent    bool
	retryAt time.Time
	batch   int
}

// execute carries out an admitted action.
func (g *gate) execute(ctx context.Context, a gc.Action, taken breaker.Grant) metadata.Outcome {
	if a.Verb != gc.DeleteVolume {
		o := g.api.Do(ctx, a, a.Object.Namespace != "")
		g.finish(taken, o.Result)
		return o
	}
	o, asked := g.volumes.delete(ctx, a)
	r := gc.Conflict
	if asked {
		r = gc.Done // the driver may have done it, whatever it answered
	}
	g.finish(taken, r)
	return o
}

// carryOut executes an action if it is admitted, and returns how it went.
func (g *gate) carryOut(ctx context.Context, a gc.Action) gateResult {
	begun := time.Now()
	why, taken := g.admit(begun, a)
	if why == "" {
		o := g.execute(ctx, a, taken)
		g.report(a, o.Result.String(), o, begun)
		return gateResult{Outcome: o, sent: true}
	}
	g.report(a, why, metadata.Outcome{}, begun)
	p := gateResult{retryAt: taken.RetryAt, batch: taken.Batch}
	switch why {
	case resultObserved, resultExcluded:
		p.Result = gc.Withheld
	case resultTripped, resultSlowed, resultUnsaved, resultUnconfirmed:
		p.Result = gc.Deferred
	case resultUncertain:
		p.Result = gc.TooMany // soon
	default:
		p.Result = gc.Failed
	}
	return p
}

// report an action to the log of decisions, the metrics and the log.
func (g *gate) report(a gc.Action, result string, o metadata.Outcome, begun time.Time) {
	if a.Verb == gc.Record || a.Verb == gc.Withdraw {
		g.metrics.action(a, result)
		return // no change of the object
	}
	switch {
	case o.Throttled, result == resultPaused, result == resultClosed, result == resultTripped, result == resultSlowed, result == resultUnsaved, result == resultUncertain, result == resultUnconfirmed:
		g.metrics.action(a, result)
		return // it will be asked for again: nothing was decided against it
	}
	g.decisions.add(a, result, o, begun)
	g.metrics.action(a, result)
	level, message := slog.LevelDebug, "patched"
	switch done := result == resultObserved || o.Result == gc.Done && o.Err == nil; {
	case done && isDeletion(a):
		level, message = slog.LevelInfo, "deleted"
	case done && a.Verb == gc.FailPod:
		level, message = slog.LevelInfo, "marked as failed"
	case o.Result == gc.Failed || o.Result == gc.Forbidden:
		level, message = slog.LevelWarn, "refused"
	}
	if result == resultObserved {
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
		attrs = append(attrs, slog.String("root", describe(a.Root)), slog.String("root_uid", a.Root.UID))
	}
	if o.Err != nil {
		attrs = append(attrs, slog.String("error", o.Err.Error()))
	}
	g.log.LogAttrs(context.Background(), level, message, attrs...)
}

// reportGivenUp creates an event for a foreground deletion that ends although nobody could
// see all dependents.
func (g *gate) reportGivenUp(a gc.Action) {
	types := "some types"
	if p := g.unreadableTypes.Load(); p != nil && *p != "" {
		types = *p
	}
	g.events.record(metadata.Notice{Object: a.Object, Type: warning, Reason: eventGivenUp,
		Message: "its foreground deletion ends although these could not be listed for long, and may hold dependents: " + types})
}

func boolGauge(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
