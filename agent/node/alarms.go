package node

import "time"

// alarm names a reason for the loop to wake by itself.
type alarm int

const (
	alarmPlan      alarm = iota // the policy's answer changes by itself
	alarmEvents                 // a burst of runtime events has had its pause
	alarmRetry                  // something failed or was capped and may work now
	alarmReconcile              // the safety net
	alarmLine                   // a filesystem is to be read again and its line set anew
	alarmPoll                   // no kernel line on this filesystem: read the disk
	alarmSave                   // the state could not be written
	alarmTidy                   // dead containers are to be looked for
	alarmResolve                // the resolver is to be asked again for layers
	alarmRest                   // work that only a start has is over
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

// next returns how long until the earliest alarm; ok is false if none is set.
func (a *alarms) next(now time.Time) (wait time.Duration, ok bool) {
	var first time.Time
	for _, at := range a.at {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return 0, false
	}
	return max(0, first.Sub(now)), true
}

// due clears and returns the alarms that have come.
func (a *alarms) due(now time.Time) (rung [alarmCount]bool) {
	for which, at := range a.at {
		if !at.IsZero() && !at.After(now) {
			rung[which] = true
			a.at[which] = time.Time{}
		}
	}
	return rung
}
