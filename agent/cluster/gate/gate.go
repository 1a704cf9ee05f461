// Package gate admits or refuses every change of ebb-controller to the cluster. It refuses by mode,
// pause, exclusions, the circuit breaker (package breaker) and an etcd restore that no person has
// confirmed. It also keeps the last decisions. Pause, breaker and counts outlive the process in a
// [StateStore].
//
// The loop that owns the graph calls the gate. The gate knows nothing of that loop.
package gate

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/breaker"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/drivers"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/gc"
)

// pauseTimeout is how long a pause waits for requests in flight.
const pauseTimeout = 5 * time.Second

// API is the API server: see [metadata.Client].
type API interface {
	drivers.API
	// Sure reports whether the watched state may be acted on; changed is closed once it may.
	Sure() (sure bool, changed <-chan struct{})
}

// Options configure a [Gate].
type Options struct {
	Config config.Config
	API    API
	Log    *slog.Logger
	// Metrics come from [NewMetrics].
	Metrics *Metrics
	// Warn queues an event about o.
	Warn func(o gc.Coordinates, reason, message string)
	// State keeps what outlives this process; nil: a restart ends a pause by hand and closes the
	// circuit breaker.
	State StateStore
	// Confirm are the collectors that wait until a person has confirmed the state after an etcd
	// restore.
	Confirm []gc.Collector
	// InJournal reports whether an owner is in the journal of orphaned owners.
	InJournal func(uid string) bool
	// Driver opens the CSI driver of a name; nil: see [drivers.Options].
	Driver drivers.Open
	// Turn is for the requests around deletions of volumes: see [drivers.Options].
	Turn func(ctx context.Context, do func() error) error
}

// Gate admits or refuses every change to the cluster: each deletion and each patch. Mode, pause,
// circuit breaker, exclusions, the decision log and the metrics of actions live here and nowhere
// else. Workers call it concurrently.
//
// A pause is in force when [Gate.Pause] returns, which waits for requests in flight. The circuit
// breaker (package breaker) counts deletions before they are sent, so it never admits one too many.
// It holds deletions only: all of them, or those of one root owner. Held deletions wait in the
// graph, not in a worker.
//
// One request about an excluded object passes: the removal of a collector's finalizer from an
// object that a user deleted. In mode observe the collector learns that an action was withheld, and
// does not request it again until the object changes.
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
	leaseHeld func() bool     // whether the Lease is held, by the clock; nil: there is no election
	config    config.Config   // in force
	exclude   map[string]bool // namespaces
	paused    bool            // by hand; config.Paused is another switch
	tripped   bool
	// unconfirmed: etcd was restored, and no person has confirmed what came back.
	unconfirmed bool
	loading     bool // the state of the last leader is not known yet: see saver
	// journalRead: the entries of the journal of orphaned owners are known. journalOwned: this
	// process is the one that writes it.
	journalRead, journalOwned bool
	closed                    bool
	breaker                   breaker.Breaker
	inFlight                  int
	idle                      *sync.Cond // signals that inFlight became 0
}

// New returns a gate. It admits nothing before Run has read the state of the last leader, if there
// is a State. It admits no action of the collector of owners before SetJournal was called.
func New(o Options) *Gate {
	g := &Gate{api: o.API, log: o.Log, metrics: o.Metrics, warn: o.Warn, confirm: o.Confirm, inJournal: o.InJournal, loading: o.State != nil, saver: saver{store: o.State, wake: make(chan struct{}, 1)}}
	g.idle = sync.NewCond(&g.mu)
	g.volumes = drivers.New(drivers.Options{API: o.API, Open: o.Driver, Refused: g.refusalNow, Turn: o.Turn,
		Called: func(driver, result string) { o.Metrics.volumeCalls.WithLabelValues(driver, result).Inc() }})
	g.Configure(o.Config)
	return g
}

// Guard sets a function that the gate calls before each change. It reports whether this instance
// still leads.
func (g *Gate) Guard(holds func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaseHeld = holds
}

// Configure replaces the configuration. Requests in flight continue.
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
	g.saver.notify()
}

// Settings returns the configuration in force.
func (g *Gate) Settings() config.Config {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.config
}

// SetJournal notes whether the journal of orphaned owners was read, and whether this process has
// taken it over: no other process writes it then.
func (g *Gate) SetJournal(read, taken bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.journalRead, g.journalOwned = read, taken
}

// Enforces reports whether the mode of a collector is enforce.
func (g *Gate) Enforces(name gc.Collector) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.config.ModeOf(name) == config.Enforce
}

// OwnersObserved reports whether the collector of owners changes nothing: its mode is not enforce.
func (g *Gate) OwnersObserved() bool { return !g.Enforces(gc.Owners) }

func (g *Gate) updateMetrics() {
	g.metrics.observing.Set(program.Bool(g.config.Mode == config.Observe))
	for _, name := range g.metrics.collectors {
		g.metrics.enforcing.WithLabelValues(name.String()).Set(program.Bool(g.config.ModeOf(name) == config.Enforce))
	}
	g.metrics.paused.Set(program.Bool(g.paused || g.config.Paused))
	g.metrics.tripped.Set(program.Bool(g.tripped))
	g.metrics.unconfirmed.Set(program.Bool(len(g.awaitingConfirmation()) > 0))
}

// CloseDrivers ends the connections to CSI drivers.
func (g *Gate) CloseDrivers() { g.volumes.Close() }

// Pause admits nothing from now on, and waits up to 5 s for requests in flight. left is how many
// are still in flight then.
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
		g.log.Warn("paused: no deletions are sent", "reason", "by hand")
	}
	g.paused = true
	g.updateMetrics()
	for g.inFlight > 0 && ctx.Err() == nil {
		g.idle.Wait()
	}
	return g.inFlight
}

// Resume ends a pause by hand and closes the circuit breaker. The counts of the breaker start at
// zero, because a person has checked. If the configuration pauses the controller, Resume changes
// nothing. still is what holds the gate nevertheless, or "".
func (g *Gate) Resume() (still string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.config.Paused {
		return "the configuration says paused: true"
	}
	if g.paused || g.tripped {
		g.log.Info("resumed", "reason", "by hand", "was_paused", g.paused, "breaker_was_open", g.tripped)
	}
	if g.tripped {
		g.breaker.Reset()
	}
	g.paused, g.tripped = false, false
	g.updateMetrics()
	if g.loading {
		return "it is not known yet whether the previous leader was paused or had its circuit breaker open"
	}
	return ""
}

// Close refuses everything from now on.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
