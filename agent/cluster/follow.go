package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// follow starts to list and watch a type, from nothing.
func (c *Controller) follow(s *served) {
	ctx, stop := context.WithCancel(c.following)
	f := &following{stop: stop}
	s.told = 0
	done := make(chan struct{}, 1)
	f.Follower = c.api.Follow(s.Type, s.fields(), func(ctx context.Context, batch []metadata.Event) error {
		return c.enterBy(ctx, done, func(now time.Time) {
			if !f.over {
				c.take(now, s, batch)
			}
		})
	})
	s.following = f
	s.become(stateListing, "", time.Now())
	c.group.Go(func() {
		if err := f.Run(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("a type is not followed any more", "type", s.name(), "error", err)
		}
	})
}

// unfollow ends it. What is still handed on is ignored.
func (s *served) unfollow() {
	if s.following != nil {
		s.following.over = true
		s.following.stop()
		s.following = nil
	}
}

// take a batch into the graph. The strings in it are not kept.
func (c *Controller) take(now time.Time, s *served, batch []metadata.Event) {
	v, kind := s.APIVersion, s.Kind
	if batch[0].Kind != metadata.Unreadable {
		s.heard = now
	}
	at := c.serverTime(now)
	for i := range batch {
		e := &batch[i]
		s.tell(at, e)
		switch e.Kind {
		case metadata.Observed:
			if s.told > 0 && c.collector.Contradicts(e.Object, s.told) {
				c.wentBack(now, s, "what is listed is not what was told before")
				return
			}
			c.collector.Observe(now, e.Object)
			if s.tells {
				c.definitions.observe(now, e)
				c.want()
			}
		case metadata.Deleted:
			c.collector.Forget(now, e.Object)
			if s.tells {
				c.definitions.forget(now, e.Object.Name)
				c.want()
			}
		case metadata.Skipped:
			c.skip(s, e)
		case metadata.Listing:
			s.skipped = 0
			c.collector.Listing(now, v, kind)
			s.expect(e.ResourceVersion)
			if s.state != stateSynced {
				s.become(stateListing, s.why, now)
			}
		case metadata.Synced:
			s.told, s.skipSaid = 0, s.skipped > 0
			c.collector.Synced(now, v, kind)
			c.readable(now, s)
		case metadata.Unreadable:
			c.collector.Unreadable(now, v, kind)
			c.unreadable(now, s, e.Err)
		case metadata.Away:
			c.wasAway(now, e.Absences)
		case metadata.WentBack:
			c.wentBack(now, s, "resourceVersions went backwards")
			return // the rest is of a follower that is over
		}
	}
}

// expect that a list is not behind what was told. Other API servers may count as they
// like.
func (s *served) expect(version string) {
	s.told = 0
	if v, err := strconv.ParseUint(version, 10, 64); err == nil && !s.Aggregated {
		s.told = v
	}
}

func (c *Controller) readable(now time.Time, s *served) {
	s.refused, s.refusals = time.Time{}, 0
	if s.state == stateUnreadable {
		c.log.Info("type can be read again", "type", s.name(), "reason", "listed", "after", now.Sub(s.since).Round(time.Millisecond).String())
	}
	s.become(stateSynced, "", now)
	c.publish(now)
}

func (c *Controller) unreadable(now time.Time, s *served, err error) {
	why := fmt.Sprint(err)
	switch {
	case !errors.Is(err, metadata.ErrNotServed):
		s.refused, s.refusals = time.Time{}, 0
	case s.refusals == 0:
		s.refused, s.refusals = now, 1
	default:
		s.refusals++
	}
	if s.state != stateUnreadable {
		c.log.Warn("type cannot be read; the others go on", "type", s.name(), "reason", why)
		c.definitions.changed(now) // it may be gone
		c.want()
		s.become(stateUnreadable, why, now)
	}
	s.why = why
	c.publish(now)
}

// wasAway is told by each type that resumes or is listed after an absence, before
// anything else of it.
func (c *Controller) wasAway(now time.Time, absences uint64) {
	if absences > c.absences {
		c.absences = absences
		c.log.Info("the API server was away; what was proven to be gone is looked at again", "reason", "absence")
		c.collector.Away(now)
	}
}

// wentBack is for an etcd that was restored: nothing is believed until it was seen
// again, so everything is listed again, by followers that remember nothing.
func (c *Controller) wentBack(now time.Time, by *served, why string) {
	c.log.Warn("etcd was restored; everything is listed again", "reason", why, "type", by.name())
	c.metrics.restores.Inc()
	c.collector.Restored(now)
	for _, a := range c.sides.all {
		a.Restored(c.serverTime(now))
	}
	c.orphans.restored()
	c.door.knowJournal(false, false)
	c.door.etcdRestored(why)
	for _, s := range c.types {
		if s.following != nil {
			s.unfollow()
			c.follow(s)
		}
	}
	c.publish(now)
}

// warn tells of a reference into another namespace, as the kube-controller-manager
// does, in its words; or of an object that cannot be caught.
func (c *Controller) warn(a gc.Action) {
	switch a.Reason {
	case cascade.HeldByExcluded:
		c.warnExcluded(a)
		return
	case cascade.ChangesTooOften:
		c.log.Warn("an object changes between each read and the request about it; tried again, ever more seldom", "reason", string(a.Reason),
			"apiVersion", a.Object.APIVersion, "kind", a.Object.Kind, "namespace", a.Object.Namespace, "name", a.Object.Name, "uid", a.Object.UID)
		c.herald.say(metadata.Notice{Object: a.Object, Type: warning, Reason: eventChanges, Message: "it is to go, and something changes it all the time: " +
			"each request met a conflict; it is tried again, ever more seldom"})
		return
	}
	o := a.Owner
	c.herald.say(metadata.Notice{Object: a.Object, Type: warning, Reason: eventNamespace, Message: fmt.Sprintf(
		"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID, a.Object.Namespace)})
}
