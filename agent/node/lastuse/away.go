package lastuse

import (
	"maps"
	"time"
)

const (
	// awayMost is how long the record of a withdrawn image is kept if nothing ends the withdrawal. The
	// lease that holds the image expires earlier.
	awayMost = 25 * time.Hour

	// awayBack is how long the record is kept once the names are restored. The runtime may list the
	// image late, or may once more list the images as they were before the restore.
	awayBack = time.Minute

	// listedMost bounds the wait until the runtime lists an image whose names are restored. A plan
	// without the image would remove another one in its place. ListedTick is the time between two
	// lists.
	listedMost = time.Second
	ListedTick = 20 * time.Millisecond
)

// awayImages has the images that ebb itself may make missing from the runtime's list: their names were
// removed, or restored a moment ago. Their records are kept for a while, so that they come back as old
// as they were.
type awayImages map[string]away // by image ID

// away is until when the record of an image is kept, and since when it has its names back; the zero
// time if it does not have them.
type away struct{ until, back time.Time }

// taken records that an image loses its names now.
func (b awayImages) taken(id string, now time.Time) { b[id] = away{until: now.Add(awayMost)} }

// back records that images have their names again.
func (b awayImages) back(now time.Time, ids ...string) {
	for _, id := range ids {
		b[id] = away{until: now.Add(awayBack), back: now}
	}
}

// ended is called when all withdrawals have ended. An image that is missing then, and was not restored,
// is gone.
func (b awayImages) ended() {
	maps.DeleteFunc(b, func(_ string, a away) bool { return a.back.IsZero() })
}

// late reports whether an image is missing whose names were restored a moment ago. The runtime learns
// of names by events, and may process our delete after our restore. So the image may be missing after
// it was listed.
func (b awayImages) late(now time.Time, missing func(id string) bool) bool {
	for id, a := range b {
		if !a.back.IsZero() && now.Sub(a.back) < listedMost && missing(id) {
			return true
		}
	}
	return false
}

// keeps reports whether the record of an image that is not listed is kept. While unmended, each such
// record is kept: the image may be one that an earlier agent has withdrawn.
func (b awayImages) keeps(id string, now time.Time, unmended bool) bool {
	if _, ok := b[id]; !ok && unmended {
		b.taken(id, now)
	}
	return now.Before(b[id].until)
}

// expire drops the images whose time has passed.
func (b awayImages) expire(now time.Time) {
	maps.DeleteFunc(b, func(_ string, a away) bool { return !now.Before(a.until) })
}

// any reports whether one of them is missing.
func (b awayImages) any(now time.Time, missing func(id string) bool) bool {
	for id, a := range b {
		if now.Before(a.until) && missing(id) {
			return true
		}
	}
	return false
}
