package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// errIdle answers questions while there is no graph.
var errIdle = errors.New("this instance does not lead: it watches nothing; ask the one that holds the Lease")

// Options are what a controller is made of.
type Options struct {
	Config  config.Config
	API     API
	Log     *slog.Logger
	Metrics *Metrics
	Memory  Memory // nil: a restart ends a pause by hand and lets go of the brake
	Journal journal.Store
	// Machines reads the inventory; nil: by runtime/machines.
	Machines Machines
	// Driver gives the CSI driver of a name behind a socket; nil: a [csi.Driver].
	Driver func(name, socket string) Driver
}

// Controller collects what has lost its owners. See the package comment for who
// owns what.
type Controller struct {
	api        API
	log        *slog.Logger
	metrics    *Metrics
	door       *door
	herald     *herald
	keeper     keeper
	orphans    *orphans
	machines   Machines
	unsurveyed atomic.Pointer[string] // why the inventory could not be read; empty: it was

	inputs   chan input
	answers  chan answer
	jobs     chan gc.Action
	poked    chan struct{} // the scout is to look at wanted
	recorded chan struct{} // something came into the journal
	ended    chan struct{} // the loop has
	leads    atomic.Bool

	previews chan struct{} // one at a time: each takes memory

	// What does not change while the controller runs.
	discoveryInterval, shutdownGrace time.Duration
	address                          config.Server

	wanted   atomic.Int64 // when the loop wants the next discovery, in Unix nanoseconds; 0: whenever
	earliest atomic.Int64 // when the scout may ask again

	beat   atomic.Int64 // when the loop last moved, in Unix nanoseconds
	status atomic.Pointer[status]

	// What follows belongs to the loop.
	collector   *cascade.Collector
	sides       sides
	limit       limiter
	workers     int // started so far
	types       map[typeKey]*served
	partial     map[string]error // of the last discovery
	askedAt     time.Time        // when that was asked for
	absences    uint64           // of the API server, as far as was told
	definitions definitions
	slim        bool            // what the first lists took was given back
	following   context.Context // ends with the loop
	group       sync.WaitGroup  // all that Run has started
	work        context.Context // ends when requests on their way are given up
}

// input is something for the loop to do; done is told when it did.
type input struct {
	do   func(now time.Time)
	done chan<- struct{}
}

// answer is how an action went.
type answer struct {
	action    gc.Action
	asOf      time.Time // it was sent
	read      gc.Answer
	inventory *nodes.Inventory // nil: it could not be read
	passage
}

// mostWorkers is the highest concurrency that a configuration allows: queues of
// that size never block.
const mostWorkers = 1024

// New makes a controller that does nothing until Run.
func New(o Options) *Controller {
	h := newHerald(o)
	c := &Controller{
		api: o.API, log: o.Log, metrics: o.Metrics, herald: h, door: newDoor(o, h),
		inputs: make(chan input), answers: make(chan answer, mostWorkers), jobs: make(chan gc.Action, mostWorkers),
		poked: make(chan struct{}, 1), recorded: make(chan struct{}, 1), ended: make(chan struct{}), previews: make(chan struct{}, 1),
		discoveryInterval: time.Duration(o.Config.DiscoveryInterval), shutdownGrace: time.Duration(o.Config.ShutdownGrace), address: o.Config.Server,
		collector: cascade.New(o.Config.Cascade()),
		limit:     newLimiter(o.Config.Concurrency.Start, o.Config.Concurrency.Most),
		types:     map[typeKey]*served{}, definitions: newDefinitions(),
	}
	if c.machines = o.Machines; c.machines == nil {
		c.machines = readMachines
	}
	h.quiet = c.door.silent
	o.Metrics.scraped.ask = c.counts
	c.orphans = newOrphans(o.Journal, o.Config.LeaderElection)
	c.door.recorded = c.orphans.journal.Has
	c.keeper = keeper{memory: o.Memory, kick: make(chan struct{}, 1)}
	c.door.changed = c.keeper.changed
	c.status.Store(&status{problems: []string{"types are not known yet"}})
	return c
}

// Guard has the door ask, before each change, whether this instance still leads.
func (c *Controller) Guard(holds func() bool) {
	c.door.mu.Lock()
	defer c.door.mu.Unlock()
	c.door.holds = holds
}

// Run collects until ctx ends, then lets requests on their way finish, for
// Config.ShutdownGrace at most; with [election.ErrLost] as the cause not at all.
// It may be called once.
func (c *Controller) Run(ctx context.Context) error {
	// The graph goes before the requests do: they are waited for.
	ctx, fenced := context.WithCancelCause(ctx)
	defer fenced(nil)
	following, stopFollowing := context.WithCancel(ctx)
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	c.following, c.work = following, work
	defer stopFollowing()
	c.apply(time.Now(), c.door.settings()) // may be others than New had
	c.group.Go(func() { c.scout(following) })
	c.group.Go(func() { c.herald.run(following) })
	c.group.Go(func() { c.keepJournal(following, fenced) })
	c.group.Go(func() { c.sweepJournal(following) })
	c.leads.Store(true)
	if c.keeper.memory != nil {
		c.group.Go(func() { c.keep(following) })
	}
	c.metrics.leader.Set(1)
	defer c.metrics.leader.Set(0)
	c.loop(ctx)
	c.leads.Store(false)
	c.door.close()
	defer c.door.volumes.close()
	stopFollowing()
	close(c.ended)
	close(c.jobs)
	if errors.Is(context.Cause(ctx), election.ErrLost) {
		abandon()
	}
	stop := time.AfterFunc(c.shutdownGrace, abandon)
	defer stop.Stop()
	c.group.Wait()
	if !errors.Is(context.Cause(ctx), election.ErrLost) {
		c.keepLast(context.WithoutCancel(ctx))
	}
	if errors.Is(context.Cause(ctx), election.ErrLost) {
		return election.ErrLost
	}
	return nil
}

// loop is the goroutine that owns the graph. It sleeps until somebody has
// something for it, or the collector's next moment. What went comes before what
// was seen: a free worker is worth more than a fresh graph.
func (c *Controller) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		for more := true; more; {
			select {
			case a := <-c.answers:
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
		c.beat.Store(now.UnixNano())
		select {
		case <-ctx.Done():
		case a := <-c.answers:
			c.answered(time.Now(), a)
		case in := <-c.inputs:
			in.do(time.Now())
			in.done <- struct{}{}
		case <-timer.C:
		case <-changed:
		}
	}
}

// arm sets the timer for when something changes by itself.
func (c *Controller) arm(timer *time.Timer, now time.Time) {
	next, side := c.collector.Next(), c.nextOfSides(now)
	if !next.IsZero() && !next.After(now) && c.limit.free(now) == 0 && !now.Before(c.limit.until) {
		next = time.Time{} // an answer makes room
	}
	if next.IsZero() || !side.IsZero() && side.Before(next) {
		next = side
	}
	switch {
	case !c.door.open() || next.IsZero():
		timer.Stop()
		return
	case now.Before(c.limit.until) && next.Before(c.limit.until):
		next = c.limit.until
	}
	timer.Reset(next.Sub(now))
}

// enter has the loop do something, and returns when it did. An error says that the
// loop has ended, or ctx has before it could begin.
func (c *Controller) enter(ctx context.Context, do func(now time.Time)) error {
	return c.enterBy(ctx, make(chan struct{}, 1), do)
}

// enterBy does the same with a channel of the caller's, of capacity 1.
func (c *Controller) enterBy(ctx context.Context, done chan struct{}, do func(now time.Time)) error {
	select {
	case c.inputs <- input{do, done}:
		<-done // it is being done: what it reads is the caller's until then
		return nil
	case <-c.ended:
		return errIdle
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dispatch hands out what is to be done, as far as workers are free.
func (c *Controller) dispatch(now time.Time) {
	if !c.door.open() {
		return
	}
	c.collector.Hold(now, c.door.holdsDeletions())
	reserve := c.reserve(now)
	for free := c.limit.free(now) - reserve; free > 0; free = c.limit.free(now) - reserve {
		actions := c.collector.Ready(now, free)
		if len(actions) == 0 {
			break
		}
		for _, a := range actions {
			c.begin(now, a)
		}
	}
	c.dispatchSides(now)
	roots, deferred := c.collector.Slowed()
	c.metrics.slowed.Set(float64(roots))
	c.metrics.deferred.Set(float64(deferred))
	c.metrics.nodes.Set(float64(c.collector.Len()))
	c.metrics.queued.Set(float64(c.collector.Pending()))
	c.metrics.inFlight.Set(float64(c.limit.inFlight))
	c.metrics.limit.Set(float64(c.limit.limit))
}

func (c *Controller) begin(now time.Time, a gc.Action) {
	switch a.Verb {
	case gc.Warn:
		c.warn(a)
		return
	case gc.Record, gc.Withdraw:
		c.orphans.ask(a)
		return
	case gc.DeleteVolume: // takes as long as a driver does, which is no business of the API server's
		c.group.Go(func() { c.answers <- c.carryOut(a) })
		return
	case gc.Inventory:
		c.askInventory(a)
		return
	}
	c.limit.sent()
	if c.sides.last = isSide(a); !c.sides.last && (a.Verb == gc.Delete || a.Verb == gc.RemoveReferences) {
		c.sides.cascades = now
	}
	if c.limit.inFlight > c.workers {
		c.workers++
		c.group.Go(c.worker)
	}
	c.jobs <- a
}

// worker carries actions out. Workers live on: their stacks have grown to what a
// request takes.
func (c *Controller) worker() {
	for a := range c.jobs {
		c.answers <- c.carryOut(a)
	}
}

func (c *Controller) carryOut(a gc.Action) answer {
	begun := time.Now()
	switch a.Verb {
	case gc.Verify, gc.Read:
		if c.work.Err() != nil || !c.door.open() {
			return answer{action: a, asOf: begun}
		}
		read, err := c.api.Read(c.work, a.Object, a.Object.Namespace != "")
		took := time.Since(begun)
		c.metrics.read(a, read.State, took)
		if err != nil {
			c.log.Debug("not known", "verb", a.Verb.String(), "kind", a.Object.Kind, "namespace", a.Object.Namespace, "name", a.Object.Name, "error", err)
		}
		out := answer{action: a, asOf: begun, read: read, passage: passage{sent: true, Outcome: metadata.Outcome{Took: took, Result: gc.Done}}}
		out.RetryAfter, out.Throttled = metadata.Throttled(err)
		return out
	default:
		p := c.door.carryOut(c.work, a)
		if p.sent {
			p.Took = time.Since(begun)
			c.metrics.request(a.Verb, p.Took)
		}
		return answer{action: a, asOf: begun, passage: p}
	}
}

// answered takes an answer into the graph.
func (c *Controller) answered(now time.Time, a answer) {
	switch a.action.Verb {
	case gc.Record:
		c.collector.Finished(now, a.action.ID, a.Result)
		return
	case gc.Inventory:
		c.surveyed(now, a)
		return
	}
	switch v := well; {
	case a.action.Verb == gc.DeleteVolume:
	case !a.sent:
		c.limit.unsent()
	default:
		if a.Throttled {
			v = throttled
			c.metrics.throttled.Inc()
		} else if a.Webhook {
			v = webhook // a type that nobody can delete must not slow the others
		} else if a.Result == gc.Failed {
			v = failed
		}
		c.limit.answered(now, v, a.Took, a.RetryAfter)
	}
	if isSide(a.action) {
		c.answeredSide(now, a)
		return
	}
	if a.action.Verb == gc.Verify || a.action.Verb == gc.Read {
		c.collector.Answered(now, a.asOf, a.action.ID, a.read)
		return
	}
	if a.Object != nil {
		c.collector.Patched(now, a.action.ID, *a.Object)
	}
	if a.Result == gc.Deferred {
		c.collector.Hold(now, c.door.holdsDeletions())
		if !a.until.IsZero() {
			c.collector.Slow(now, a.action.Root.UID, a.until, a.most)
		}
	}
	c.collector.Finished(now, a.action.ID, a.Result)
	if a.action.Reason == cascade.TypesGivenUp && a.Result == gc.Done {
		c.metrics.givenUp.Inc()
		c.door.givenUp(a.action)
	}
}
