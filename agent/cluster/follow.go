package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// follow starts to list and watch a type, beginning with a list.
func (c *Controller) follow(s *servedType) {
	ctx, stop := context.WithCancel(c.lifetime.following)
	f := &following{stop: stop}
	s.listedUpTo = 0
	done := make(chan struct{}, 1)
	f.Follower = c.api.Follow(s.Type, s.fields(), func(ctx context.Context, batch []metadata.Event) error {
		return c.loop.doVia(ctx, done, func(now time.Time) {
			if !f.over {
				c.applyBatch(now, s, batch)
			}
		})
	})
	s.following = f
	s.setState(stateListing, "", time.Now())
	c.lifetime.group.Go(func() {
		if err := f.Run(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("stopped watching a type", "type", s.name(), "error", err)
		}
	})
}

// unfollow stops listing and watching a type. Batches that still arrive are ignored.
func (s *servedType) unfollow() {
	if s.following != nil {
		s.following.over = true
		s.following.stop()
		s.following = nil
	}
}

// applyBatch applies a batch of events. The strings in it are not kept.
func (c *Controller) applyBatch(now time.Time, s *servedType, batch []metadata.Event) {
	if batch[0].Kind != metadata.Unreadable {
		s.lastHeard = now
	}
	at := c.serverTime(now)
	for i := range batch {
		e := &batch[i]
		s.notify(at, e)
		if c.owners.on && !c.applyToGraph(now, s, e) {
			return
		}
		switch e.Kind {
		case metadata.Skipped:
			c.skipObject(s, e)
		case metadata.Listing:
			s.skipped = 0
			if s.state != stateSynced {
				s.setState(stateListing, s.why, now)
			}
		case metadata.Synced:
			s.skipLogged = s.skipped > 0
			c.readable(now, s)
		case metadata.Unreadable:
			c.unreadable(now, s, e.Err)
		case metadata.Away:
			c.onAbsence(now, e.Absences)
		case metadata.WentBack:
			c.onRestore(now, s, "resourceVersions went backwards")
			return // the rest is from a follower that was stopped
		}
	}
}

// applyToGraph applies an event to the graph of owners. It returns false if the event shows that
// etcd was restored: then the rest of the batch is from a follower that was stopped.
func (c *Controller) applyToGraph(now time.Time, s *servedType, e *metadata.Event) bool {
	switch e.Kind {
	case metadata.Observed:
		if s.listedUpTo > 0 && c.owners.Contradicts(e.Object, s.listedUpTo) {
			c.onRestore(now, s, "a list contradicts what was watched before")
			return false
		}
		c.owners.Observe(now, e.Object)
		if e.Object.Terminating && s.state == stateListing {
			c.claim(s, e.Object)
		}
		if s.definesTypes {
			c.types.definitions.Observe(now, e)
			c.scheduleDiscovery()
		}
	case metadata.Deleted:
		c.owners.Forget(now, e.Object)
		if s.definesTypes {
			c.types.definitions.Forget(now, e.Object.Name)
			c.scheduleDiscovery()
		}
	case metadata.Listing:
		c.owners.Listing(now, s.APIVersion, s.Kind)
		s.setListedUpTo(e.ResourceVersion)
	case metadata.Synced:
		s.listedUpTo = 0
		c.owners.Synced(now, s.APIVersion, s.Kind)
	case metadata.Unreadable:
		c.owners.Unreadable(now, s.APIVersion, s.Kind)
	}
	return true
}

// setListedUpTo notes the version up to which everything was reported before a list. Until the list
// is complete, its objects are checked against that ([cascade.Collector.Contradicts]). Aggregated
// API servers may count versions as they like, so their lists are not checked.
func (s *servedType) setListedUpTo(version string) {
	s.listedUpTo = 0
	if v, err := strconv.ParseUint(version, 10, 64); err == nil && !s.Aggregated {
		s.listedUpTo = v
	}
}

func (c *Controller) readable(now time.Time, s *servedType) {
	s.refusedSince, s.refusals = time.Time{}, 0
	if s.state == stateUnreadable {
		c.log.Info("type can be read again", "type", s.name(), "reason", "listed", "after", now.Sub(s.since).Round(time.Millisecond).String())
	}
	s.setState(stateSynced, "", now)
	c.publish(now)
}

func (c *Controller) unreadable(now time.Time, s *servedType, err error) {
	why := fmt.Sprint(err)
	switch {
	case !errors.Is(err, metadata.ErrNotServed):
		s.refusedSince, s.refusals = time.Time{}, 0
	case s.refusals == 0:
		s.refusedSince, s.refusals = now, 1
	default:
		s.refusals++
	}
	if s.state != stateUnreadable {
		c.log.Warn("cannot read a type; other types are still collected", "type", s.name(), "reason", why)
		c.types.definitions.Changed(now) // the type may be gone
		c.scheduleDiscovery()
		s.setState(stateUnreadable, why, now)
	}
	s.why = why
	c.publish(now)
}

// onAbsence is called by each type that resumes or is listed after an absence of the API
// server, before anything else of that type.
func (c *Controller) onAbsence(now time.Time, absences uint64) {
	if absences > c.types.absences {
		c.types.absences = absences
		c.log.Info("the API server was unreachable; owners found absent before are checked again", "reason", "absence")
		c.owners.Away(now)
	}
}

// onRestore handles a restore of etcd. No object counts until it was seen again, so new followers
// list everything.
func (c *Controller) onRestore(now time.Time, by *servedType, why string) {
	c.log.Warn("etcd was restored; listing everything again", "reason", why, "type", by.name())
	c.metrics.restores.Inc()
	c.owners.Restored(now)
	for _, a := range c.collectors.all {
		a.Restored(c.serverTime(now))
	}
	c.journal.Reload()
	c.gate.SetJournal(false, false)
	c.gate.OnRestore(why)
	for _, s := range c.types.all {
		if s.following != nil {
			s.unfollow()
			c.follow(s)
		}
	}
	c.publish(now)
}

// warn reports a reference into another namespace, as the kube-controller-manager does, in its
// words. It also reports a deleted owner that only excluded objects hold, and an object that
// changes before each request about it.
func (c *Controller) warn(a gc.Action) {
	switch a.Reason {
	case cascade.HeldByExcluded:
		c.warnExcluded(a)
		return
	case cascade.ChangesTooOften:
		c.log.Warn("an object changes before each request about it; retrying with back-off", "reason", string(a.Reason),
			"apiVersion", a.Object.APIVersion, "kind", a.Object.Kind, "namespace", a.Object.Namespace, "name", a.Object.Name, "uid", a.Object.UID)
		c.events.Warn(a.Object, events.Changes, "it keeps changing, so ebb cannot delete it: "+
			"each request met a conflict; retrying with back-off")
		return
	}
	o := a.Owner
	c.events.Warn(a.Object, events.Namespace, fmt.Sprintf(
		"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID, a.Object.Namespace))
}
