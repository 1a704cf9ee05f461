package node

import (
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
)

// alarm names a reason for the loop to wake by itself.
type alarm int

const (
	alarmPlan      alarm = iota // the plan changes with time
	alarmEvents                 // a burst of runtime events is over
	alarmRetry                  // something failed or was capped and may work now
	alarmReconcile              // read everything again, in case an event was lost
	alarmRest                   // the work of the start is over
	alarmCount
)

// alarms are the loop's deadlines, all on one timer. The zero value has none
// set.
type alarms struct {
	at [alarmCount]time.Time
}

// set replaces an alarm; the zero time clears it.
func (a *alarms) set(which alarm, at time.Time) { a.at[which] = at }

// sooner sets an alarm unless it already rings earlier.
func (a *alarms) sooner(which alarm, at time.Time) {
	if a.at[which].IsZero() || at.Before(a.at[which]) {
		a.at[which] = at
	}
}

// next returns how long until the earliest alarm or deadline of another part; ok is false
// if there is none.
func (a *alarms) next(now time.Time, deadlines ...time.Time) (wait time.Duration, ok bool) {
	first := clock.Earliest(append(deadlines, a.at[:]...)...)
	return max(0, first.Sub(now)), !first.IsZero()
}

// due clears and returns the alarms that have come.
func (a *alarms) due(now time.Time) (rung [alarmCount]bool) {
	for which, at := range a.at {
		if clock.Came(at, now) {
			rung[which] = true
			a.at[which] = time.Time{}
		}
	}
	return rung
}
