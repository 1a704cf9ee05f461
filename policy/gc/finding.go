package gc

import "time"

// Finding is the decision of a collector about one object.
type Finding struct {
	Reason Reason // why it is deleted, or why it is kept
	// Due is when it is to be deleted, in the API server's time; zero: never, unless
	// something changes.
	Due      time.Time
	InFlight bool   // a request about it is in flight
	Asked    bool   // a request was sent before
	Last     Result // of the last request
}

// Find returns the finding about an object, with what the [Queue] knows of it.
func (i *Item) Find(why Reason) Finding {
	f := Finding{Reason: why, Due: i.Due(), InFlight: i.id != 0, Asked: i.last > 0}
	if f.Asked {
		f.Last = Result(i.last - 1)
	}
	return f
}
