package cluster

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/brake"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Why the door lets an action not through, beside the results of those it does.
const (
	resultObserved = "observed" // mode observe: only said
	resultPaused   = "paused"
	resultBraked   = "braked"
	resultSlowed   = "slowed" // its cascade has spent its envelope
	resultUnkept   = "unkept" // how many there were is to be written down first
	resultExcluded = "excluded"
	resultClosed   = "closed" // the controller ends, or does not lead any more
	// resultUnrecorded: the finalizer orphan stays, because the journal does not have its
	// object.
	resultUnrecorded = "unrecorded"
	// resultRestored: etcd was restored, and nobody has confirmed what stands there now.
	resultRestored = "restored"
	resultUnsure   = "unsure" // the API server was away: what was decided may rest on another history
)

// pauseWait is how long a pause waits for what is on its way.
const pauseWait = 5 * time.Second

// door is the one through which every change to the cluster goes: each deletion and
// each patch. Mode, pause, brake, exclusions, the record, the log and the metrics
// of what is done live here and nowhere else. Workers pass it side by side.
type door struct {
	api     API
	log     *slog.Logger
	metrics *Metrics
	herald  *herald
	record  record
	volumes *deleter
	broken  atomic.Pointer[string] // types that cannot be read, for those who are told

	mu      sync.Mutex
	holds   func() bool // the Lease, by the clock; nil: there is none
	config  config.Config
	exclude map[string]bool // namespaces
	paused  bool            // by hand; the configuration's switch is another
	braked  bool
	// restored: etcd was, and no person has confirmed what came back.
	restored bool
	unknown  bool // how the last leader left it: see keeper
	// What the journal of orphaned owners has is known, and this process writes it.
	read, taken bool
	recorded    func(uid string) bool // an owner stands in the journal
	changed     func()                // tells the keeper
	closed      bool
	brake       brake.Brake
	sending     int
	idle        *sync.Cond // sending became 0
}

func newDoor(o Options, h *herald) *door {
	d := &door{api: o.API, log: o.Log, metrics: o.Metrics, herald: h, unknown: o.Memory != nil, changed: func() {}, recorded: func(string) bool { return false }}
	d.idle = sync.NewCond(&d.mu)
	d.volumes = newDeleter(o, d)
	d.configure(o.Config)
	return d
}

// configure takes another configuration; what is on its way goes on.
func (d *door) configure(c config.Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config = c
	d.exclude = make(map[string]bool, len(c.Exclude.Namespaces))
	for _, name := range c.Exclude.Namespaces {
		d.exclude[name] = true
	}
	d.volumes.configure(c.Collectors.Volumes)
	d.brake.Set(brake.Limits{Deletions: c.Brake.Deletions, Window: time.Duration(c.Brake.Window), Burst: c.Envelope.Burst, PerMinute: c.Envelope.PerMinute})
	d.show()
}

// settings are those in force.
func (d *door) settings() config.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config
}

// open says whether anything would be let through, so that nobody asks for what
// would not.
func (d *door) open() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.closed && !d.halted()
}

func (d *door) halted() bool {
	return d.unknown || d.unread() || d.paused || d.config.Paused
}

// sure says whether what was told may be acted on.
func (d *door) sure() bool {
	sure, _ := d.api.Sure()
	return sure
}

// unread says whether it is not known yet who was orphaned: then an orphan could be
// deleted.
func (d *door) unread() bool { return !d.taken && (d.config.Mode != config.Observe || !d.read) }

// knowJournal says whether the journal of orphaned owners was read, and whether nobody
// else writes it.
func (d *door) knowJournal(read, taken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read, d.taken = read, taken
}

// observes says whether nothing is to be changed.
func (d *door) observes() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config.Mode == config.Observe
}

// holdsDeletions says whether none would be let through, whatever its cascade.
func (d *door) holdsDeletions() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config.Mode == config.Enforce && (d.braked || d.brake.Exhausted())
}

func (d *door) show() {
	d.metrics.observing.Set(truth(d.config.Mode == config.Observe))
	d.metrics.paused.Set(truth(d.paused || d.config.Paused))
	d.metrics.braked.Set(truth(d.braked))
	d.metrics.unconfirmed.Set(truth(d.waiting()))
}

// enter says why an action is not let through; "" lets it, and then leave ends it. The
// brake holds deletions alone.
func (d *door) enter(now time.Time, a gc.Action) (string, brake.Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	why := d.bars(a)
	switch {
	case why != "":
		return why, brake.Answer{}
	case !isDeletion(a):
		d.sending++
		return "", brake.Answer{}
	case d.braked:
		return resultBraked, brake.Answer{}
	}
	taken := d.brake.Take(now, a.Root)
	if d.brake.Wanted(now) || d.brake.First() {
		d.changed()
	}
	switch taken.Verdict {
	case brake.Full:
		d.pull(now, a)
		return resultBraked, brake.Answer{}
	case brake.Unkept:
		return resultUnkept, taken
	case brake.Slowed:
		if taken.First {
			d.slow(a, taken)
		}
		return resultSlowed, taken
	}
	d.sending++
	return "", taken
}

// bars says why an action is not let through, however few there were; "" if nothing speaks
// against it. The caller holds the lock.
func (d *door) bars(a gc.Action) string {
	switch {
	case d.closed || d.holds != nil && !d.holds():
		return resultClosed
	case a.Verb != gc.Record && a.Verb != gc.Withdraw && d.excluded(a.Object) && a.Verb != gc.RemoveFinalizer: // of one that somebody deleted
		return resultExcluded
	case a.Verb == gc.DeleteVolume && d.exclude[a.Owner.Namespace]: // its claim's
		return resultExcluded
	case d.restored && waitsForPerson[a.Collector]:
		return resultRestored
	case d.config.Mode == config.Observe || isSide(a) && d.config.Collectors.Mode(a.Collector) != config.Enforce:
		return resultObserved
	case d.halted():
		return resultPaused
	case !d.sure():
		return resultUnsure
	case a.Verb == gc.RemoveFinalizer && a.Finalizer == gc.OrphanFinalizer && !d.recorded(a.Object.UID):
		return resultUnrecorded
	}
	return ""
}

// leave ends a request. A deletion that the API server did not carry out does not count.
func (d *door) leave(taken brake.Answer, r gc.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch r {
	case gc.Conflict, gc.Gone, gc.Forbidden, gc.TooMany:
		d.brake.Give(taken)
	}
	if d.sending--; d.sending == 0 {
		d.idle.Broadcast()
	}
}

func (d *door) excluded(o gc.Coordinates) bool {
	return o.Namespace != "" && d.exclude[o.Namespace] ||
		config.Patterns(d.config.Exclude.Types).Match(o.Resource, groupOf(o.APIVersion))
}

// pause lets nothing through from now on, and waits a moment for what is on its
// way. left says how much still is.
func (d *door) pause(ctx context.Context) (left int) {
	ctx, cancel := context.WithTimeout(ctx, pauseWait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.idle.Broadcast()
	})
	defer stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.paused {
		d.log.Warn("paused: nothing is sent", "reason", "by hand")
	}
	d.paused = true
	d.show()
	for d.sending > 0 && ctx.Err() == nil {
		d.idle.Wait()
	}
	return d.sending
}

// resume ends a pause by hand and lets go of the brake: then a person has looked, and all
// is counted anew. still says what halts the door nevertheless.
func (d *door) resume() (still string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused || d.braked {
		d.log.Info("going on", "reason", "by hand", "was_paused", d.paused, "was_braked", d.braked)
	}
	if d.braked {
		d.brake.Reset()
	}
	d.paused, d.braked = false, false
	d.show()
	if d.config.Paused {
		return "the configuration says paused: true"
	}
	if d.unknown {
		return "it is not known yet whether it was paused or braked before it was started"
	}
	return ""
}

// close the door for good.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// silent says whether not even events are to be created.
func (d *door) silent() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed || d.unknown || d.unread() || d.paused || d.config.Paused || d.config.Mode == config.Observe
}

// state in words, for people: what stops everything, and what waits for a person.
func (d *door) state() string {
	words := d.stops()
	if d.waitsAfterRestore() {
		words = append(words, "etcd was restored: nodes and volumes wait for POST /control/confirm-restore")
	}
	return strings.Join(words, ", ")
}

// stops is why nothing is sent at all, in words.
func (d *door) stops() (words []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range []struct {
		is   bool
		word string
	}{
		{d.config.Mode == config.Observe, "observe: nothing is changed until mode is enforce"}, {d.paused, "paused by hand"},
		{d.config.Paused, "paused by configuration"}, {d.braked, "braked: too many deletions"},
		{d.unknown, "asking how it was left"}, {d.unread(), "reading the journal of orphaned owners"}, {d.closed, "ending"}, {!d.sure(), "the API server was away: nothing is sent until each type has told how it stands"},
		{d.brake.Exhausted() && !d.unknown && !d.closed, "deletions wait until it is written down how many there were"},
	} {
		if s.is {
			words = append(words, s.word)
		}
	}
	return words
}

// passage is how an action went. One that is Deferred may be asked for again at a time,
// with so many others of its root; without one, once deletions are not held any more.
type passage struct {
	metadata.Outcome
	sent  bool
	until time.Time
	most  int
}

// do what was let through.
func (d *door) do(ctx context.Context, a gc.Action, taken brake.Answer) metadata.Outcome {
	if a.Verb != gc.DeleteVolume {
		o := d.api.Do(ctx, a, a.Object.Namespace != "")
		d.leave(taken, o.Result)
		return o
	}
	o, asked := d.volumes.delete(ctx, a)
	r := gc.Conflict
	if asked {
		r = gc.Done // whatever the driver said, it may have done it
	}
	d.leave(taken, r)
	return o
}

// carryOut does what an action asks for, if it is let through, and says how it
// went.
func (d *door) carryOut(ctx context.Context, a gc.Action) passage {
	begun := time.Now()
	why, taken := d.enter(begun, a)
	if why == "" {
		o := d.do(ctx, a, taken)
		d.note(a, o.Result.String(), o, begun)
		return passage{Outcome: o, sent: true}
	}
	d.note(a, why, metadata.Outcome{}, begun)
	p := passage{until: taken.Until, most: taken.Most}
	switch why {
	case resultObserved, resultExcluded:
		p.Result = gc.Withheld
	case resultBraked, resultSlowed, resultUnkept, resultRestored:
		p.Result = gc.Deferred
	case resultUnsure:
		p.Result = gc.TooMany // soon
	default:
		p.Result = gc.Failed
	}
	return p
}

// note an action in the record, the metrics and the log.
func (d *door) note(a gc.Action, result string, o metadata.Outcome, begun time.Time) {
	if a.Verb == gc.Record || a.Verb == gc.Withdraw {
		d.metrics.action(a, result)
		return // no change of the object
	}
	switch {
	case o.Throttled, result == resultPaused, result == resultClosed, result == resultBraked, result == resultSlowed, result == resultUnkept, result == resultUnsure, result == resultRestored:
		d.metrics.action(a, result)
		return // it will be asked for again: nothing was decided against it
	}
	d.record.add(a, result, o, begun)
	d.metrics.action(a, result)
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
	if !d.log.Enabled(context.Background(), level) {
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
	d.log.LogAttrs(context.Background(), level, message, attrs...)
}

// givenUp tells of a foreground deletion that ends although nobody could see all
// dependents.
func (d *door) givenUp(a gc.Action) {
	types := "some types"
	if p := d.broken.Load(); p != nil && *p != "" {
		types = *p
	}
	d.herald.say(metadata.Notice{Object: a.Object, Type: warning, Reason: eventGivenUp,
		Message: "its foreground deletion ends although these could not be listed for long, and may hold dependents: " + types})
}

func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
