// Package gate is what every change of ebb-controller to the cluster passes. It refuses by mode, pause,
// exclusions, the circuit breaker (package breaker) and an etcd restore that nobody confirmed, and keeps
// the last decisions. Pause, breaker and counts outlive the process in a [StateStore].
//
// The loop that owns the graph calls it. It knows nothing of that loop.
package gate

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/breaker"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/drivers"
	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Why the gate refuses an action. An action that passes has the result of its request.
const (
	Observed = "observed" // mode observe: only logged
	Paused   = "paused"
	Tripped  = "breaker_open"
	Slowed   = "slowed"  // its cascade has spent its envelope
	Unsaved  = "unsaved" // how many there were is to be written down first
	Excluded = "excluded"
	Closed   = "closed" // the controller ends, or does not lead any more
	// Unrecorded: the finalizer orphan stays, because the journal does not have its
	// object.
	Unrecorded = "unrecorded"
	// Unconfirmed: etcd was restored, and nobody has confirmed the state.
	Unconfirmed = "restored"
	Uncertain   = "unsure" // the API server was away: what was decided may rest on another history
)

// pauseTimeout is how long a pause waits for what is on its way.
const pauseTimeout = 5 * time.Second

// API is the API server: see [metadata.Client].
type API interface {
	drivers.API
	// Sure says whether the watched state may be acted on; changed is closed once it may.
	Sure() (sure bool, changed <-chan struct{})
}

// Options are what a gate is made of.
type Options struct {
	Config config.Config
	API    API
	Log    *slog.Logger
	// Metrics come from [NewMetrics].
	Metrics *Metrics
	// Warn has an event created.
	Warn func(o gc.Coordinates, reason, message string)
	// State keeps what outlives this process; nil: a restart ends a pause by hand and closes the
	// circuit breaker.
	State StateStore
	// Confirm are the collectors that wait for a person after etcd was restored.
	Confirm []gc.Collector
	// InJournal says whether an owner is in the journal of orphaned owners.
	InJournal func(uid string) bool
	// Driver gives the CSI driver of a name; nil: see [drivers.Options].
	Driver drivers.Open
}

// Gate is what every change to the cluster passes: each deletion and each patch. Mode,
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
type Gate struct {
	api       API
	log       *slog.Logger
	metrics   *Metrics
	warn      func(o gc.Coordinates, reason, message string)
	confirm   []gc.Collector
	inJournal func(uid string) bool
	decisions decisionLog
	volumes   *drivers.Deleter
	saver     saver

	mu        sync.Mutex
	leaseHeld func() bool     // the Lease, by the clock; nil: there is none
	config    config.Config   // in force
	exclude   map[string]bool // namespaces
	paused    bool            // by hand; the configuration's switch is another
	tripped   bool
	// unconfirmed: etcd was restored, and no person has confirmed what came back.
	unconfirmed bool
	loading     bool // how the last leader left it: see saver
	// What the journal of orphaned owners has is known, and this process writes it.
	journalRead, journalOwned bool
	closed                    bool
	breaker                   breaker.Breaker
	inFlight                  int
	idle                      *sync.Cond // inFlight became 0
}

// New makes a gate. Nothing passes it before Run has read how the last leader left it, if there is
// a State, and SetJournal was called, unless owners are off.
func New(o Options) *Gate {
	g := &Gate{api: o.API, log: o.Log, metrics: o.Metrics, warn: o.Warn, confirm: o.Confirm, inJournal: o.InJournal, loading: o.State != nil, saver: saver{store: o.State, wake: make(chan struct{}, 1)}}
	g.idle = sync.NewCond(&g.mu)
	g.volumes = drivers.New(drivers.Options{API: o.API, Open: o.Driver, Refused: g.refusalNow,
		Called: func(driver, result string) { o.Metrics.volumeCalls.WithLabelValues(driver, result).Inc() }})
	g.Configure(o.Config)
	return g
}

// Guard has the gate ask, before each change, whether this instance still leads.
func (g *Gate) Guard(holds func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaseHeld = holds
}

// Configure takes another configuration; what is on its way goes on.
func (g *Gate) Configure(c config.Config) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.config = c
	g.exclude = make(map[string]bool, len(c.Exclude.Namespaces))
	for _, name := range c.Exclude.Namespaces {
		g.exclude[name] = true
	}
	g.volumes.Configure(c.Collectors.Volumes)
	g.breaker.Set(breaker.Limits{Deletions: c.CircuitBreaker.Deletions, Window: time.Duration(c.CircuitBreaker.Window),
		Cascade: breaker.Rate(c.Envelope), Collector: breaker.Rate(c.CollectorEnvelope)})
	g.updateMetrics()
}

// Settings are those in force.
func (g *Gate) Settings() config.Config {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.config
}

// Open says whether anything would be let through, so that nobody asks for what
// would not.
func (g *Gate) Open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.closed && !g.halted()
}

func (g *Gate) halted() bool {
	return g.loading || g.journalUnread() || g.paused || g.config.Paused
}

// sure says whether the watched state may be acted on.
func (g *Gate) sure() bool {
	sure, _ := g.api.Sure()
	return sure
}

// journalUnread says whether it is not known yet who was orphaned: then an orphan could be
// deleted.
func (g *Gate) journalUnread() bool {
	mode := g.config.ModeOf(gc.Owners)
	return mode != config.Off && !g.journalOwned && (mode == config.Enforce || !g.journalRead)
}

// SetJournal notes whether the journal of orphaned owners was read, and whether nobody
// else writes it.
func (g *Gate) SetJournal(read, taken bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.journalRead, g.journalOwned = read, taken
}

// OwnersObserved says whether nothing is changed because of owners.
func (g *Gate) OwnersObserved() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.config.ModeOf(gc.Owners) != config.Enforce
}

func (g *Gate) updateMetrics() {
	g.metrics.observing.Set(program.Bool(g.config.Mode == config.Observe))
	for _, name := range g.metrics.collectors {
		g.metrics.enforcing.WithLabelValues(name.String()).Set(program.Bool(g.config.ModeOf(name) == config.Enforce))
	}
	g.metrics.paused.Set(program.Bool(g.paused || g.config.Paused))
	g.metrics.tripped.Set(program.Bool(g.tripped))
	g.metrics.unconfirmed.Set(program.Bool(g.awaitsConfirmation()))
}

// Admit says why an action is refused; "" admits it, and then Finish ends it. The circuit
// breaker holds deletions only.
func (g *Gate) Admit(now time.Time, a gc.Action) (string, breaker.Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why := g.refusal(a)
	switch {
	case why != "":
		return why, breaker.Grant{}
	case !IsDeletion(a):
		g.inFlight++
		return "", breaker.Grant{}
	case g.tripped:
		return Tripped, breaker.Grant{}
	}
	taken := g.breaker.Acquire(now, a.Root)
	if g.breaker.SaveDue(now) || g.breaker.FirstUnsaved() {
		g.saver.notify()
	}
	switch taken.Verdict {
	case breaker.Exceeded:
		g.trip(now, a)
		return Tripped, breaker.Grant{}
	case breaker.Unsaved:
		return Unsaved, taken
	case breaker.Slowed:
		if taken.First {
			g.reportSlowed(a, taken)
		}
		return Slowed, taken
	}
	g.inFlight++
	return "", taken
}

// refusalNow says why the gate would refuse an action, whatever the counts are; empty: it would not.
func (g *Gate) refusalNow(a gc.Action) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusal(a)
}

// CloseDrivers ends the connections to CSI drivers.
func (g *Gate) CloseDrivers() { g.volumes.Close() }

// IsDeletion says whether an action deletes. The circuit breaker counts only those.
func IsDeletion(a gc.Action) bool { return a.Verb == gc.Delete || a.Verb == gc.DeleteVolume }

// refusal says why an action is refused, whatever the counts are; "" if it is not. The
// caller holds the lock.
func (g *Gate) refusal(a gc.Action) string {
	switch {
	case g.closed || g.leaseHeld != nil && !g.leaseHeld():
		return Closed
	case a.Verb != gc.Record && a.Verb != gc.Withdraw && g.excluded(a.Object) && a.Verb != gc.RemoveFinalizer: // of one that somebody deleted
		return Excluded
	case a.Verb == gc.DeleteVolume && g.exclude[a.Owner.Namespace]: // its claim's
		return Excluded
	case g.unconfirmed && slices.Contains(g.confirm, a.Collector):
		return Unconfirmed
	case g.config.ModeOf(a.Collector) != config.Enforce:
		return Observed
	case g.halted():
		return Paused
	case !g.sure():
		return Uncertain
	case a.Verb == gc.RemoveFinalizer && a.Finalizer == gc.OrphanFinalizer && !g.inJournal(a.Object.UID):
		return Unrecorded
	}
	return ""
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

func (g *Gate) excluded(o gc.Coordinates) bool {
	return o.Namespace != "" && g.exclude[o.Namespace] ||
		config.Patterns(g.config.Exclude.Types).Match(o.Resource, gc.GroupOf(o.APIVersion))
}

// Pause lets nothing through from now on, and waits a moment for what is on its
// way. left says how much still is.
func (g *Gate) Pause(ctx context.Context) (left int) {
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

// Resume ends a pause by hand and closes the circuit breaker, whose counts begin at zero:
// a person has checked. still says what holds the gate nevertheless.
func (g *Gate) Resume() (still string) {
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

// Close refuses everything from now on.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Muted says whether not even an event is to be created. Those of the circuit breaker and of
// envelopes are of all collectors, the others of owners.
func (g *Gate) Muted(reason string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	ofAll := reason == events.Tripped || reason == events.Slowed
	return g.closed || g.halted() || g.config.Mode == config.Observe || !ofAll && g.config.ModeOf(gc.Owners) != config.Enforce
}

// Status says for people what stops everything, and what waits for a person.
func (g *Gate) Status() string {
	words := g.Halts()
	if g.AwaitsConfirmation() {
		words = append(words, "etcd was restored: nodes and volumes wait for ebb control confirm-restore")
	}
	return strings.Join(words, ", ")
}

// Halts say why nothing is sent at all.
func (g *Gate) Halts() (words []string) {
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

// Outcome is how an action went. One that is Deferred may be asked for again at RetryAt,
// in a batch of its root; if RetryAt is zero, once deletions are not held any more.
type Outcome struct {
	metadata.Outcome
	Sent    bool
	RetryAt time.Time
	Batch   int
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
		p.Result = gc.TooMany // soon
	default:
		p.Result = gc.Failed
	}
	return p
}

// Report an action to the log of decisions, the metrics and the log.
func (g *Gate) Report(a gc.Action, result string, o metadata.Outcome, begun time.Time) {
	if a.Verb == gc.Record || a.Verb == gc.Withdraw {
		g.metrics.action(a, result)
		return // no change of the object
	}
	switch {
	case o.Throttled, result == Paused, result == Closed, result == Tripped, result == Slowed, result == Unsaved, result == Uncertain, result == Unconfirmed:
		g.metrics.action(a, result)
		return // it will be asked for again: nothing was decided against it
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
