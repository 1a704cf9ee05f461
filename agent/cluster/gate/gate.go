// Package gate is what every change of ebb-controller to the cluster passes. It refuses by mode, pause,
// exclusions, the circuit breaker (package breaker) and an etcd restore that nobody confirmed, and keeps
// the last decisions. Pause, breaker and counts outlive the process in a [StateStore].
//
// The loop that owns the graph calls it. It knows nothing of that loop.
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

// CloseDrivers ends the connections to CSI drivers.
func (g *Gate) CloseDrivers() { g.volumes.Close() }

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
		g.log.Warn("paused: no deletions are sent", "reason", "by hand")
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
		g.log.Info("resumed", "reason", "by hand", "was_paused", g.paused, "breaker_was_open", g.tripped)
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
		return "not known yet whether the previous leader was paused or had its circuit breaker open"
	}
	return ""
}

// Close refuses everything from now on.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
