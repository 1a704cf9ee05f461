package gc

import (
	"math"
	"time"
)

// Stamp is a time as objects have it: in whole Unix seconds, in a third of the memory of
// a [time.Time].
type Stamp int64

// NoStamp stands for no time.
const NoStamp Stamp = math.MinInt64

// StampOf rounds up, so that nothing goes early. The zero time is none.
func StampOf(t time.Time) Stamp {
	switch {
	case t.IsZero():
		return NoStamp
	case t.Nanosecond() > 0:
		return Stamp(t.Unix()) + 1
	}
	return Stamp(t.Unix())
}

// Time of a stamp; zero if it is none.
func (s Stamp) Time() time.Time {
	if s == NoStamp {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}
