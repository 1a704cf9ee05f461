package image

import (
	"fmt"
	"time"
)

// Pods is how reliable Image.Wanted is. Unknown never means unwanted: while the source of
// pods cannot be reached, its latest answer counts, and images that this answer could not
// cover are kept.
type Pods struct {
	Unknown  bool      // the source cannot be reached: Image.Wanted is from its latest answer
	Answered time.Time // when that answer was true; zero: there was none
}

// UnansweredAge is the minimum age for a removal if the source of pods has never answered: a
// pod creates its containers long before that.
const UnansweredAge = time.Hour

// MayWant returns why a pod that was not reported may want an image that arrived at that
// time; "" if none can. An unknown time counts as now.
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

// oldAt returns when an image is old enough to go; zero if no minimum age applies, or its
// arrival is unknown.
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
