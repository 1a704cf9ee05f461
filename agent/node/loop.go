package node

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
)

// restPause is the time from the first look, and from the moment when all layers are known, until the
// work of the start counts as over. The state has been saved by then.
const restPause = 5 * time.Second

// loop receives all events, handles what takes no time, and has the workers do the rest.
func (a *Agent) loop(ctx context.Context) error {
	defer a.finish()
	a.monitor.DoQuietly(func() { a.reconcileAt(a.now()) })
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var ring <-chan time.Time
		if wait, ok := a.untilNext(); ok {
			timer.Reset(wait)
			ring = timer.C
		}
		hear, over := a.next(ctx, ring)
		if over {
			return nil
		}
		a.monitor.DoQuietly(hear)
	}
}

// untilNext returns how long until the next deadline; ok is false if there is none. The deadlines of a
// worker that is already due do not count: the worker handles them.
func (a *Agent) untilNext() (wait time.Duration, ok bool) {
	a.monitor.DoQuietly(func() {
		deadlines := []time.Time{a.lastUse.Layers().Next(), a.saver.Next(), a.switches.Next()}
		if !a.disks.due {
			deadlines = append(deadlines, a.watermark.Next())
		}
		if !a.dead.due {
			deadlines = append(deadlines, a.workloads.Next())
		}
		wait, ok = a.alarms.next(a.now(), deadlines...)
	})
	return wait, ok
}

// next waits for the next event, and returns its handler, which is called under the monitor. over is
// true if ctx has ended.
func (a *Agent) next(ctx context.Context, ring <-chan time.Time) (hear func(), over bool) {
	select {
	case <-ctx.Done():
		return nil, true
	case <-a.monitor.Left():
		return func() {}, false // a deadline may have changed
	case rt := <-a.in.connected:
		return func() { a.runtimeUp(rt) }, false
	case c := <-a.in.crossings:
		return func() {
			a.admin.lookForPauseFile()
			a.disks.crossing(c)
		}, false
	case <-a.in.mounts:
		return a.looks.mountsChanged, false
	case <-a.in.news:
		return a.takeEvents, false
	case r := <-a.lastUse.Layers().Resolutions():
		return func() { a.layerResolved(r) }, false
	case err := <-a.saver.Answers():
		return func() { a.saver.Done(err) }, false
	case <-a.in.podsNews:
		return a.dead.podsChanged, false
	case r := <-a.workloads.Reports():
		return func() { a.workloads.Reported(r) }, false
	case <-ring:
		return a.rung, false
	}
}

// finish waits for the workers, gives the saver the last state, and ends it. The saver outlives ctx for
// this.
func (a *Agent) finish() {
	a.ended.Wait()
	a.history.Close()
	a.monitor.DoQuietly(func() {
		a.lastUse.Harvest()
		a.saver.Finish()
	})
}

func (a *Agent) reconcileAt(now time.Time) {
	d := time.Duration(a.cfg.ReconcileInterval)
	jitter := time.Duration(rand.Int64N(int64(d)/5+1)) - d/10
	a.alarms.set(alarmReconcile, now.Add(d+jitter))
}

// rung handles the alarms and deadlines that have come.
func (a *Agent) rung() {
	a.metrics.wakeups.Inc()
	now := a.now()
	due := a.alarms.due(now)
	if due[alarmReconcile] {
		a.reconcileAt(now)
		a.looks.wanted.reconcile = true
		a.lastUse.Purge()
		if a.lastUse.Known() != nil && !a.lastUse.Layers().Unsettled() {
			a.heat.Forget()
		}
	}
	if clock.Came(a.switches.Next(), now) {
		a.setPause(nil)
		if a.switches.Paused() == nil {
			a.log.Info("resumed: the pause has expired", "reason", "pause")
			a.tellResumed("the pause is over")
			a.admin.goOn()
			a.stopped = false
		}
	}
	a.admin.lookForPauseFile()
	if clock.Came(a.saver.Next(), now) {
		a.saver.Save()
	}
	if due[alarmEvents] {
		copy(a.looks.forEvents[:], a.looks.forEvents[1:])
		a.looks.forEvents[eventBurst-1] = now
	}
	if due[alarmReconcile] || due[alarmPlan] || due[alarmEvents] || due[alarmRetry] {
		a.looks.request(0)
	}
	if clock.Came(a.watermark.Next(), now) {
		a.disks.want()
	}
	a.lastUse.Layers().ResolveDue()
	if due[alarmReconcile] || clock.Came(a.workloads.Next(), now) {
		a.dead.want()
	}
	if due[alarmRest] {
		a.rested()
	}
}
