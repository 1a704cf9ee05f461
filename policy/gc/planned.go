package gc

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Planned is an object that is to be deleted, and the finding about it.
type Planned struct {
	Object Coordinates
	Finding
	Detail string // for a person; "" if the reason is enough
}

// Earliest returns up to most of the objects that are due until a time, those due longest
// first, and how many there are in all. due returns the zero time for an object that stays.
// Earliest visits all objects, and calls plan only for those it returns.
func Earliest[E any](objects func(yield func(E) bool), due func(E) time.Time, until time.Time, most int, plan func(E) Planned) (first []Planned, all int) {
	type at struct {
		due time.Time
		of  E
	}
	var list []at
	order := func(a, b at) int { return a.due.Compare(b.due) }
	for e := range objects {
		d := due(e)
		if d.IsZero() || d.After(until) {
			continue
		}
		all++
		if list = append(list, at{d, e}); len(list) >= 2*most+16 {
			slices.SortFunc(list, order)
			list = list[:most]
		}
	}
	slices.SortFunc(list, order)
	for _, a := range list[:min(most, len(list))] {
		first = append(first, plan(a.of))
	}
	slices.SortStableFunc(first, func(a, b Planned) int {
		return cmp.Or(a.Due.Compare(b.Due), strings.Compare(a.Object.Namespace, b.Object.Namespace), strings.Compare(a.Object.Name, b.Object.Name))
	})
	return first, all
}
