package removal

import (
	"slices"
	"time"
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

// ByAge returns how many images may be removed in an hour while only their age asks for it. That is
// percent of all images, including those that were removed recently, and at least 1.
func ByAge(images int, recent []time.Time, percent int) int {
	return max(1, (images+len(recent))*percent/100)
}
