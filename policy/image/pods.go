package image

import (
	"fmt"
	"time"
)

// Pods is what is known of who wants images. Unknown is never unwanted: while the
// pods cannot be asked their latest answer counts, and what it could not know of stays.
type Pods struct {
	Unknown  bool      // they cannot be asked: Image.Wanted is from their latest answer
	Answered time.Time // what that answer says was true then; zero: there was none
}

// UnansweredAge is how old an image must be to go where the pods have never answered: a
// pod makes its containers long before that.
const UnansweredAge = time.Hour

// MayWant says why a pod that nobody has reported may want an image that arrived
// at that time, "" if none is to be thought of. A time that is not known is now.
func (p Pods) MayWant(arrived, now time.Time) string {
	if !p.Unknown {
		return ""
	}
	since := age(arrived, now).Round(time.Second)
	switch {
	case p.Answered.IsZero() && age(arrived, now) < UnansweredAge:
		return fmt.Sprintf("arrived %v ago, and which pods want it was never known: %v have to pass", since, UnansweredAge)
	case !p.Answered.IsZero() && (arrived.IsZero() || !arrived.Before(p.Answered)):
		return fmt.Sprintf("arrived %v ago, and which pods want it is not known since %v", since, age(p.Answered, now).Round(time.Second))
	}
	return ""
}

// oldAt is when an image may go as far as its age is concerned; zero if age keeps none,
// or its arrival is not known.
func (s *Snapshot) oldAt(arrived time.Time) time.Time {
	least := s.Policy.MinimumAge
	if s.Pods.Unknown && s.Pods.Answered.IsZero() {
		least = max(least, UnansweredAge)
	}
	if least <= 0 {
		return time.Time{}
	}
	return after(arrived, least)
}
