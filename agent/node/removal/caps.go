package removal

import (
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/policy/image"
)

// CapWindow is the window of the hourly caps.
const CapWindow = time.Hour

// Within returns the times that are within the last CapWindow.
func Within(times []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return now.Sub(t) >= CapWindow || t.After(now) })
}

// Budget returns how many removals an hourly cap still allows, and when it allows the next one. recent
// are the times within the window, oldest first. hourly is at least 1.
func Budget(recent []time.Time, hourly int, now time.Time) (free int, at time.Time) {
	if free = hourly - len(recent); free > 0 {
		return free, now
	}
	return 0, recent[len(recent)-hourly].Add(CapWindow)
}

// shareLeast is how many removals every share allows. On a node with few images one removal is a large
// share, and the harm is small.
const shareLeast = 10

// Hourly returns how many images may be removed in an hour. A share is of all images, including those
// that were removed recently.
func Hourly(c config.Cap, images int, recent []time.Time) int {
	n, share := c.Value()
	if !share {
		return n
	}
	return max(shareLeast, shareOf(images, recent, n))
}

// Counts reports whether a removal uses up an hourly cap. With a share, an image that arrived within
// the hour before does not, unless it goes by imageMaximumGCAge: it was not on the node when the
// hour began. So half of the images holds no node whose number of images stays the same, however many
// it pulls and drops: all images that count were there an hour ago, and some are always in use.
func Counts(c config.Cap, reason image.Reason, arrived, removed time.Time) bool {
	_, share := c.Value()
	return !share || reason == image.RemovedAge || removed.Sub(arrived) >= CapWindow
}

// ByAge returns how many images may be removed in an hour while only their age asks for it. That is
// percent of all images, including those that were removed recently, and at least 1.
func ByAge(images int, recent []time.Time, percent int) int {
	return max(1, shareOf(images, recent, percent))
}

// shareOf returns percent of all images, including those that were removed recently.
func shareOf(images int, recent []time.Time, percent int) int {
	return (images + len(recent)) * percent / 100
}
