package lastuse

import (
	"maps"
	"time"
)

const (
	// awayMost is how long an image whose names were taken away keeps its record, should
	// nobody end that: the lease that holds the image expires earlier.
	awayMost = 25 * time.Hour

	// awayBack is how long it does so once the names are back. The runtime may list it
	// late, or, being late, list it once more as it was before.
	awayBack = time.Minute

	// listedMost bounds the wait for the runtime to list an image whose names are back: a
	// plan that lacks it would take another in its place. ListedTick is between two lists.
	listedMost = time.Second
	ListedTick = 20 * time.Millisecond
)

// awayImages has the images that may miss from the runtime's list through our own doing:
// their names were taken away, or put back a moment ago. What is remembered of them
// stays for a while, so that they come back as old as they were.
type awayImages map[string]away // by image ID

// away is until when an image is remembered, and since when it has its names back; the
// zero time if it has not.
type away struct{ until, back time.Time }

// taken is for images that lose their names now.
func (b awayImages) taken(id string, now time.Time) { b[id] = away{until: now.Add(awayMost)} }

// back is for images that have their names again.
func (b awayImages) back(now time.Time, ids ...string) {
	for _, id := range ids {
		b[id] = away{until: now.Add(awayBack), back: now}
	}
}

// ended is for when no image is without its names by our doing any more: those that miss now are gone.
func (b awayImages) ended() {
	maps.DeleteFunc(b, func(_ string, a away) bool { return a.back.IsZero() })
}

// late is whether an image that got its names back a moment ago is missing. The
// runtime hears of names by events, and that they were gone may reach it later than that
// they are back: so it may miss after it was there.
func (b awayImages) late(now time.Time, missing func(id string) bool) bool {
	for id, a := range b {
		if !a.back.IsZero() && now.Sub(a.back) < listedMost && missing(id) {
			return true
		}
	}
	return false
}

// keeps is whether an image that is not listed is remembered. As long as unmended, any
// of them may be an image whose names an earlier agent has taken away.
func (b awayImages) keeps(id string, now time.Time, unmended bool) bool {
	if _, ok := b[id]; !ok && unmended {
		b.taken(id, now)
	}
	return now.Before(b[id].until)
}

// expire drops what has passed.
func (b awayImages) expire(now time.Time) {
	maps.DeleteFunc(b, func(_ string, a away) bool { return !now.Before(a.until) })
}

// any reports whether one of them is missing.
func (b awayImages) any(missing func(id string) bool) bool {
	for id := range b {
		if missing(id) {
			return true
		}
	}
	return false
}
