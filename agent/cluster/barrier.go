package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// barrierAtOnce bounds the types that catch up side by side.
	barrierAtOnce = 16
	// slowAfter is when a type that is still at it is said to hold the barrier.
	slowAfter = 10 * time.Second
	// catchUpTimeout bounds one try. A type with many objects takes its time, and
	// begins from nothing when it is tried again.
	catchUpTimeout = 5 * time.Minute

	// mostRest bounds the pause between two barriers. Each reads the metadata of the
	// whole cluster: one that follows another waits as long as that one took, so that
	// at most half of the time is spent on them.
	mostRest = 5 * time.Second

	barrierRetryMin, barrierRetryMax = 250 * time.Millisecond, 15 * time.Second

	// discoveryHolder is what holds a barrier while nobody knows which types there
	// are. It cannot be overridden.
	discoveryHolder = "discovery"

	overrideHint = "POST /control/barrier/override on the admin socket, or orphanWithout in the configuration, goes on without it"
	maxWhy       = 300
)

var errSlow = errors.New("it is still catching up")

// barrier is the proof that every type was read after some owner was deleted with
// orphan. The loop owns it.
type barrier struct {
	id      uint64
	owner   cascade.Coordinates // one of those that wait
	since   time.Time
	stop    context.CancelFunc
	kick    chan struct{}     // closed to have those who wait look again
	holders map[string]string // type: why it holds
	without map[string]bool   // types that somebody said not to wait for
	left    map[string]bool   // types that were not waited for, although they could not be read
	told    bool
}

// startBarrier begins the one that an action asks for; there is never another.
func (c *Controller) startBarrier(now time.Time, a cascade.Action) {
	ctx, stop := context.WithCancel(c.following)
	b := &barrier{id: a.ID, owner: a.Object, since: now, stop: stop, kick: make(chan struct{}), holders: map[string]string{}, without: map[string]bool{}, left: map[string]bool{}}
	c.barrier = b
	rest := c.nextBarrier.Sub(now)
	c.metrics.barrierSince.Store(now.UnixNano())
	c.group.Go(func() {
		defer stop()
		if !sleep(ctx, rest) {
			return
		}
		c.passBarrier(ctx, b, time.Now())
	})
}

// dropBarrier forgets one that proves nothing any more.
func (c *Controller) dropBarrier() {
	if c.barrier != nil {
		c.barrier.stop()
		c.endBarrier()
	}
}

func (c *Controller) endBarrier() {
	c.barrier = nil
	c.metrics.barrierSince.Store(0)
	c.metrics.barrierHolders.Set(0)
}

// passBarrier waits for everything that may hold dependents: first for a discovery,
// because a type may have come a moment before the owner went, then for each type
// to catch up.
func (c *Controller) passBarrier(ctx context.Context, b *barrier, begun time.Time) {
	c.persist(ctx, b, discoveryHolder, func(ctx context.Context) error {
		_, err := c.discover(ctx)
		return err
	})
	var keys []typeKey
	var groups []string
	if c.enter(ctx, func(time.Time) { keys, groups = c.toCatchUp() }) != nil {
		return
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, barrierAtOnce)
	for _, key := range keys {
		all.Go(func() { c.catchUp(ctx, b, key, slots) })
	}
	for _, groupVersion := range groups {
		all.Go(func() { c.awaitGroup(ctx, b, groupVersion) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return
	}
	_ = c.enter(ctx, func(now time.Time) {
		if c.barrier != b {
			return
		}
		if b.told {
			c.log.Info("owners are orphaned now", "reason", "barrier passed", "after", now.Sub(b.since).Round(time.Millisecond).String())
		}
		c.metrics.barriers.Observe(now.Sub(b.since).Seconds())
		c.nextBarrier = now.Add(min(now.Sub(begun), mostRest))
		c.collector.BarrierPassed(b.id)
		c.endBarrier()
	})
}

// toCatchUp are the types that are followed, and the parts of discovery that failed
// and of which nothing is followed.
func (c *Controller) toCatchUp() (keys []typeKey, groups []string) {
	known := map[string]bool{}
	for key, s := range c.types {
		if s.following != nil {
			keys = append(keys, key)
			known[s.APIVersion] = true
		}
	}
	for groupVersion := range c.partial {
		if !known[groupVersion] {
			groups = append(groups, groupVersion)
		}
	}
	slices.SortFunc(keys, compareKeys)
	slices.Sort(groups)
	return keys, groups
}

// catchUp waits for one type.
func (c *Controller) catchUp(ctx context.Context, b *barrier, key typeKey, slots chan struct{}) {
	name := key.apiVersion + " " + key.kind
	_ = c.enter(ctx, func(time.Time) {
		if s := c.types[key]; s != nil {
			name = s.name()
		}
	})
	c.persist(ctx, b, name, func(ctx context.Context) error {
		slots <- struct{}{}
		defer func() { <-slots }()
		var f *following
		if err := c.enter(ctx, func(time.Time) {
			if s := c.types[key]; s != nil {
				f = s.following
			}
		}); err != nil {
			return err
		}
		if f == nil {
			return nil // it went: nothing can be read of it, and its objects stay as they are
		}
		return f.CatchUp(ctx)
	})
}

// awaitGroup waits for a part of discovery that failed, of which nobody knows
// which types it has.
func (c *Controller) awaitGroup(ctx context.Context, b *barrier, groupVersion string) {
	var failed error
	_ = c.enter(ctx, func(time.Time) { failed = c.partial[groupVersion] })
	c.persist(ctx, b, "*."+groupOf(groupVersion), func(ctx context.Context) error {
		if failed != nil {
			err := failed
			failed = nil // the next try asks anew
			return err
		}
		if _, err := c.discover(ctx); err != nil {
			return err
		}
		var keys []typeKey
		if err := c.enter(ctx, func(time.Time) {
			failed = c.partial[groupVersion]
			for key := range c.types {
				if key.apiVersion == groupVersion {
					keys = append(keys, key)
				}
			}
		}); err != nil {
			return err
		}
		if failed != nil {
			err := failed
			failed = nil
			return err
		}
		slots := make(chan struct{}, barrierAtOnce)
		for _, key := range keys {
			c.catchUp(ctx, b, key, slots)
		}
		return nil
	})
}

// persist tries until it succeeds, or nobody waits for it any more.
func (c *Controller) persist(ctx context.Context, b *barrier, name string, try func(context.Context) error) {
	for pause := barrierRetryMin; ; pause = min(2*pause, barrierRetryMax) {
		var kick chan struct{}
		without := false
		if c.enter(ctx, func(now time.Time) {
			if kick, without = b.kick, b.without[name]; without {
				c.holds(now, b, name, errors.New("overridden"))
			}
		}) != nil || without {
			return
		}
		err := c.attempt(ctx, b, name, kick, try)
		waits := false
		if ctx.Err() != nil || c.enter(ctx, func(now time.Time) { waits = c.holds(now, b, name, err) }) != nil || !waits {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// attempt tries once, until it is kicked. One that takes long is said to.
func (c *Controller) attempt(ctx context.Context, b *barrier, name string, kick chan struct{}, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	var watch sync.WaitGroup
	watch.Go(func() {
		slow := time.NewTimer(slowAfter)
		defer slow.Stop()
		select {
		case <-ctx.Done():
			return
		case <-slow.C:
			waits := true
			if _ = c.enter(ctx, func(now time.Time) { waits = c.holds(now, b, name, errSlow) }); !waits {
				cancel()
				return
			}
		case <-kick:
			cancel()
		}
		select {
		case <-ctx.Done():
		case <-kick:
			cancel()
		}
	})
	err := try(ctx)
	cancel()
	watch.Wait()
	return err
}

// holds notes how a type stands, and says whether the barrier waits for it.
func (c *Controller) holds(now time.Time, b *barrier, name string, err error) bool {
	if c.barrier != b {
		return false
	}
	resource, group, _ := strings.Cut(name, ".")
	waits := err != nil && !b.without[name] && !config.Patterns(c.door.settings().OrphanWithout).Match(resource, group)
	if err != nil && !waits && !b.left[name] {
		b.left[name] = true
		c.log.Warn("owners are orphaned without this type having been read", "type", name, "reason", short(err.Error()))
		c.metrics.overrides.Inc()
	}
	if waits {
		b.holders[name] = short(err.Error())
	} else {
		delete(b.holders, name)
	}
	names := slices.Sorted(maps.Keys(b.holders))
	c.metrics.barrierHolders.Set(float64(len(names)))
	c.collector.BarrierHeld(b.id, names)
	if waits && !b.told {
		b.told = true
		c.log.Warn("owners wait to be orphaned until every type can be read", "reason", b.holders[name], "type", name, "help", overrideHint)
		c.herald.say(metadata.Notice{Object: b.owner, Type: warning, Reason: eventHeld, Message: fmt.Sprintf(
			"its dependents can be in any type, and %s cannot be read: %s. %s", name, b.holders[name], overrideHint)})
	}
	return waits
}

// override lets the barrier that runs pass without some types, or all that hold
// it. It says which.
func (c *Controller) override(names []string) (gone []string) {
	b := c.barrier
	if b == nil {
		return nil
	}
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(b.holders))
	}
	for _, name := range names {
		if _, holds := b.holders[name]; holds && name != discoveryHolder {
			b.without[name] = true
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	c.kickBarrier()
	return gone
}

// kickBarrier has all who wait in the barrier look again.
func (c *Controller) kickBarrier() {
	if b := c.barrier; b != nil {
		close(b.kick)
		b.kick = make(chan struct{})
	}
}

// sleep says whether it was not ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func short(s string) string {
	if len(s) > maxWhy {
		return strings.ToValidUTF8(s[:maxWhy], "") + "…"
	}
	return s
}
