package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/discovery"
	"github.com/ebb-agent/ebb/agent/cluster/drivers"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/agent/cluster/limiter"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// errIdle is the answer to queries while there is no graph.
var errIdle = errors.New("this instance does not lead: it watches nothing; ask the one that holds the Lease")

// Options configure a [Controller].
type Options struct {
	Config  config.Config
	API     API
	Log     *slog.Logger
	Metrics *Metrics
	State   gate.StateStore // nil: a restart ends a pause by hand and closes the circuit breaker
	Journal journal.Store
	// Machines reads the inventory; nil: package runtime/machines does.
	Machines Machines
	// Driver opens the CSI driver of a name; nil: see [drivers.Options].
	Driver drivers.Open
}

// Controller deletes objects whose owners are gone, and runs the other collectors. The package
// comment lists what each goroutine owns.
type Controller struct {
	api     API
	log     *slog.Logger
	metrics *Metrics
	gate    *gate.Gate
	events  *events.Recorder
	journal *journal.Keeper
	poller  *discovery.Poller

	loop      loop
	lifetime  lifetime
	inventory inventory
	server    server

	// Owned by the loop goroutine.
	owners     owners
	collectors collectorSet
	requests   requests
	types      typeSet
}

// owners is the graph of owners and dependents.
type owners struct {
	*cascade.Collector
	on bool // the mode of owners is not off; it never changes
}

// requests are the queues between the loop and the workers, and their limit.
type requests struct {
	limit   limiter.Limiter
	workers int // started so far
	jobs    chan gc.Action
	answers chan answer
	turns   []chan struct{} // see Controller.turn
}

// lifetime bounds the goroutines that Run starts, and their requests.
type lifetime struct {
	grace     time.Duration   // for requests in flight at the end
	following context.Context // ends with the loop
	requests  context.Context // ends when requests in flight are given up
	group     sync.WaitGroup  // all goroutines that Run has started
}

// answer is how an action went.
type answer struct {
	action    gc.Action
	asOf      time.Time // when it was sent
	read      gc.Answer
	inventory *nodes.Inventory // nil: it could not be read
	gate.Outcome
}

// maxWorkers is the highest concurrency that a configuration allows: queues of
// that size never block.
const maxWorkers = 1024

// New makes a controller that does nothing until Run.
func New(o Options) *Controller {
	c := &Controller{
		api: o.API, log: o.Log, metrics: o.Metrics,
		loop:      newLoop(),
		lifetime:  lifetime{grace: time.Duration(o.Config.ShutdownGrace)},
		inventory: inventory{read: o.Machines},
		server:    server{Server: o.Config.Server},
		owners:    owners{cascade.New(o.Config.Cascade()), o.Config.ModeOf(gc.Owners) != config.Off},
		requests: requests{limit: limiter.New(o.Config.Concurrency.Start, o.Config.Concurrency.Max),
			jobs: make(chan gc.Action, maxWorkers), answers: make(chan answer, maxWorkers)},
		types: typeSet{all: map[typeKey]*servedType{}, definitions: discovery.NewDefinitions()},
	}
	if o.Machines == nil {
		c.inventory.read = readMachines
	}
	o.Metrics.scraped.ask = c.counts
	c.poller = discovery.NewPoller(time.Duration(o.Config.DiscoveryInterval), c.discover)
	c.events = events.New(events.Options{API: o.API, Log: o.Log, Count: o.Metrics.events, Muted: func(reason string) bool { return c.gate.Muted(reason) }})
	c.gate = gate.New(gate.Options{Config: o.Config, API: o.API, Log: o.Log, Metrics: o.Metrics.gate, Warn: c.events.Warn, State: o.State, Confirm: confirmed(),
		InJournal: func(uid string) bool { return c.journal.Has(uid) }, Driver: o.Driver, Turn: c.turn})
	c.journal = journal.NewKeeper(journal.Options{Store: o.Journal, Election: o.Config.LeaderElection, Log: o.Log, Metrics: o.Metrics.journal,
		Gate: c.gate, Graph: journalGraph{c}, Warn: c.events.Warn})
	c.server.status.Store(&status{problem: "types are not known yet"})
	return c
}

// Guard sets a function that the gate calls before each change. It reports whether this instance
// still leads.
func (c *Controller) Guard(holds func() bool) { c.gate.Guard(holds) }

// Run collects until ctx ends, then waits for requests in flight, for Config.ShutdownGrace at most.
// If the cause is [election.ErrLost], it cancels them at once and returns that error. It may be
// called once.
func (c *Controller) Run(ctx context.Context) error {
	// The graph ends before the requests do: Run waits for them.
	ctx, fenced := context.WithCancelCause(ctx)
	defer fenced(nil)
	following, stopFollowing := context.WithCancel(ctx)
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	c.lifetime.following, c.lifetime.requests = following, work
	defer stopFollowing()
	c.loop.leads.Store(true) // from now on Configure waits for the loop
	c.apply(time.Now(), c.gate.Settings())
	c.lifetime.group.Go(func() { c.poller.Run(following) })
	c.lifetime.group.Go(func() { c.events.Run(following) })
	if c.owners.on {
		c.lifetime.group.Go(func() { c.journal.Run(following, fenced) })
	}
	c.lifetime.group.Go(func() { c.gate.Run(following, c.wakeLoop) })
	c.metrics.leader.Set(1)
	defer c.metrics.leader.Set(0)
	c.runLoop(ctx)
	c.loop.leads.Store(false)
	c.gate.Close()
	defer c.gate.CloseDrivers()
	stopFollowing()
	close(c.loop.ended)
	close(c.requests.jobs)
	if errors.Is(context.Cause(ctx), election.ErrLost) {
		abandon()
	}
	stop := time.AfterFunc(c.lifetime.grace, abandon)
	defer stop.Stop()
	c.lifetime.group.Wait()
	if !errors.Is(context.Cause(ctx), election.ErrLost) {
		c.gate.SaveFinal(context.WithoutCancel(ctx))
	}
	if errors.Is(context.Cause(ctx), election.ErrLost) {
		return election.ErrLost
	}
	return nil
}

// runLoop is the loop of the goroutine that owns the graph. It sleeps until an answer or an input
// comes, or until the next deadline of a collector. Answers come before inputs: a free worker is
// worth more than a newer graph.
func (c *Controller) runLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		for more := true; more; {
			select {
			case a := <-c.requests.answers:
				c.answered(now, a)
			default:
				more = false
			}
		}
		sure, changed := c.api.Sure()
		if sure {
			c.dispatch(now)
			c.arm(timer, now)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
		case a := <-c.requests.answers:
			c.answered(time.Now(), a)
		case in := <-c.loop.inputs:
			in.do(time.Now())
			in.done <- struct{}{}
		case <-timer.C:
		case <-changed:
		}
	}
}

// arm sets the timer to the next deadline of the graph, or of a collector.
func (c *Controller) arm(timer *time.Timer, now time.Time) {
	next, side := time.Time{}, c.nextOfCollectors(now)
	if !c.gate.OwnersWait() {
		next = c.owners.Next()
	}
	if !next.IsZero() && !next.After(now) && c.requests.limit.Free(now) == 0 && !now.Before(c.requests.limit.Until()) {
		next = time.Time{} // an answer makes room
	}
	if next.IsZero() || !side.IsZero() && side.Before(next) {
		next = side
	}
	if until := c.requests.limit.Until(); len(c.requests.turns) > 0 && now.Before(until) {
		next = until
	}
	switch {
	case !c.gate.Open() || next.IsZero():
		timer.Stop()
		return
	case now.Before(c.requests.limit.Until()) && next.Before(c.requests.limit.Until()):
		next = c.requests.limit.Until()
	}
	timer.Reset(next.Sub(now))
}

// wakeLoop has the loop check the gate, as it does after each input.
func (c *Controller) wakeLoop(ctx context.Context) { _ = c.loop.do(ctx, func(time.Time) {}) }

// turn calls do as one request of the collectors, when there is room for it.
func (c *Controller) turn(ctx context.Context, do func() error) error {
	begin := make(chan struct{})
	if err := c.loop.do(ctx, func(time.Time) { c.requests.turns = append(c.requests.turns, begin) }); err != nil {
		return err
	}
	select {
	case <-begin:
	case <-c.loop.ended:
		return errIdle
	}
	err := do()
	_ = c.loop.do(context.WithoutCancel(ctx), func(now time.Time) {
		c.collectors.inFlight--
		if after, busy := metadata.Throttled(err); busy {
			c.metrics.throttled.Inc()
			c.requests.limit.Answered(now, limiter.Throttled, 0, after)
		} else {
			c.requests.limit.Cancel() // the duration of a large list shows little about the load of the API server
		}
	})
	return err
}

// dispatch begins actions that are due, as far as workers are free.
func (c *Controller) dispatch(now time.Time) {
	for ; len(c.requests.turns) > 0 && c.collectorRoom(now) > 0; c.requests.turns = c.requests.turns[1:] {
		c.requests.limit.Sent()
		c.collectors.inFlight++
		close(c.requests.turns[0])
	}
	if !c.gate.Open() {
		return
	}
	c.owners.Hold(now, c.gate.Held(gc.Owners))
	reserve := c.reservedForCollectors(now)
	for free := c.requests.limit.Free(now) - reserve; free > 0 && !c.gate.OwnersWait(); free = c.requests.limit.Free(now) - reserve {
		actions := c.owners.Ready(now, free)
		if len(actions) == 0 {
			break
		}
		for _, a := range actions {
			c.begin(now, a)
		}
	}
	c.dispatchCollectors(now)
	roots, deferred := c.owners.Slowed()
	c.metrics.slowed.Set(float64(roots))
	c.metrics.deferred.Set(float64(deferred))
	c.metrics.nodes.Set(float64(c.owners.Len()))
	c.metrics.queued.Set(float64(c.owners.Pending()))
	c.metrics.inFlight.Set(float64(c.requests.limit.InFlight()))
	c.metrics.limit.Set(float64(c.requests.limit.Limit()))
}

func (c *Controller) begin(now time.Time, a gc.Action) {
	switch a.Verb {
	case gc.Warn:
		c.warn(a)
		return
	case gc.Record, gc.Withdraw:
		c.journal.Add(a)
		return
	case gc.DeleteVolume: // as slow as the driver, so it does not count as a request to the API server
		c.lifetime.group.Go(func() { c.requests.answers <- c.carryOut(a) })
		return
	case gc.Inventory:
		c.readInventory(a)
		return
	}
	c.requests.limit.Sent()
	if c.collectors.lastWasCollector = isOtherCollector(a); !c.collectors.lastWasCollector && !a.Root.IsCollector() &&
		(a.Verb == gc.Delete || a.Verb == gc.RemoveReferences) && !c.gate.OwnersObserved() {
		c.collectors.lastCascade = now
	}
	if c.requests.limit.InFlight() > c.requests.workers {
		c.requests.workers++
		c.lifetime.group.Go(c.worker)
	}
	c.requests.jobs <- a
}

// worker carries out actions. Workers are reused: their stacks have grown to what a request needs.
func (c *Controller) worker() {
	for a := range c.requests.jobs {
		c.requests.answers <- c.carryOut(a)
	}
}

func (c *Controller) carryOut(a gc.Action) answer {
	begun := time.Now()
	switch a.Verb {
	case gc.Verify, gc.Read, gc.Bound:
		if c.lifetime.requests.Err() != nil || !c.gate.Open() {
			return answer{action: a, asOf: begun}
		}
		read, err := c.read(a)
		took := time.Since(begun)
		c.metrics.read(a, read.State, took)
		if err != nil {
			c.log.Debug("not known", "verb", a.Verb.String(), "kind", a.Object.Kind, "namespace", a.Object.Namespace, "name", a.Object.Name, "error", err)
		}
		out := answer{action: a, asOf: begun, read: read, Outcome: gate.Outcome{Sent: true, Outcome: metadata.Outcome{Took: took, Result: gc.Done}}}
		out.RetryAfter, out.Throttled = metadata.Throttled(err)
		return out
	default:
		p := c.gate.Do(c.lifetime.requests, a)
		if p.Sent {
			p.Took = time.Since(begun)
			c.metrics.request(a.Verb, p.Took)
		}
		return answer{action: a, asOf: begun, Outcome: p}
	}
}

// read carries out an action that is a live read.
func (c *Controller) read(a gc.Action) (gc.Answer, error) {
	if a.Verb != gc.Bound {
		return c.api.Read(c.lifetime.requests, a.Object, a.Object.Namespace != "")
	}
	one := errors.New("a Pod is bound to it")
	of := metadata.Selection{Fields: fields.OneTermEqualSelector("spec.nodeName", a.Object.Name).String()}
	switch err := c.api.ListFields(c.lifetime.requests, gc.Pods, of, nil, func(gc.Object, any) error { return one }); {
	case err == nil:
		return gc.Answer{State: gc.Absent}, nil
	case errors.Is(err, one):
		return gc.Answer{State: gc.Exists}, nil
	default:
		return gc.Answer{}, err
	}
}

// answered applies an answer to the graph, or passes it to its collector.
func (c *Controller) answered(now time.Time, a answer) {
	if a.action.Verb == gc.Inventory {
		c.inventoryRead(now, a)
		return
	}
	switch v := limiter.Succeeded; {
	case a.action.Verb == gc.DeleteVolume:
	case !a.Sent:
		c.requests.limit.Cancel()
	default:
		if a.Throttled {
			v = limiter.Throttled
			c.metrics.throttled.Inc()
		} else if a.OfObject {
			v = limiter.OfObject // objects that cannot be deleted must not slow the others
		} else if a.Result == gc.Failed {
			v = limiter.Failed
		}
		c.requests.limit.Answered(now, v, a.Took, a.RetryAfter)
	}
	if isOtherCollector(a.action) {
		c.collectorAnswered(now, a)
		return
	}
	if a.action.Verb.Reads() {
		c.owners.Answered(now, a.asOf, a.action.ID, a.read)
		return
	}
	if a.Object != nil {
		c.owners.Patched(now, a.action.ID, *a.Object)
	}
	if a.Result == gc.Deferred {
		c.owners.Hold(now, c.gate.Held(gc.Owners))
		if !a.RetryAt.IsZero() {
			c.owners.Slow(now, a.action.Root.UID, a.RetryAt, a.Batch)
		}
	}
	c.owners.Finished(now, a.action.ID, a.Result)
	if a.action.Reason == cascade.TypesGivenUp && a.Result == gc.Done {
		c.metrics.givenUp.Inc()
		c.warnGivenUp(a.action)
	}
}
