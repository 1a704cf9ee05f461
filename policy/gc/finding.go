package gc

import "time"

// Finding is what a collector makes of one object.
type Finding struct {
	Reason Reason // why it goes, or why it is kept
	// Due is when it is to go; zero: never, unless something changes. The API server's
	// time.
	Due      time.Time
	InFlight bool   // a request about it is on its way
	Asked    bool   // one was sent before
	Last     Result // of that one
}

// Find says what a [Queue] has of an object.
func (i *Item) Find(why Reason) Finding {
	f := Finding{Reason: why, Due: i.Due(), InFlight: i.id != 0, Asked: i.last > 0}
	if f.Asked {
		f.Last = Result(i.last - 1)
	}
	return f
}
