package gc

import (
	"math"
	"time"
)

// Stamp is a time as in objects: in whole Unix seconds, in a third of the memory of a
// [time.Time].
type Stamp int64

// NoStamp represents no time.
const NoStamp Stamp = math.MinInt64

// StampOf rounds up, so that no action comes early. The zero time becomes NoStamp.
func StampOf(t time.Time) Stamp {
	switch {
	case t.IsZero():
		return NoStamp
	case t.Nanosecond() > 0:
		return Stamp(t.Unix()) + 1
	}
	return Stamp(t.Unix())
}

// Time returns the time of a stamp; the zero time for NoStamp.
func (s Stamp) Time() time.Time {
	if s == NoStamp {
		return time.Time{}
	}
	return time.Unix(int64(s), 0).UTC()
}
