package watermark

import (
	"testing"

	"github.com/ebb-agent/ebb/policy/image"
)

// A polled filesystem is looked at again when either of its resources newly reaches its threshold, or got worse
// by a point.
func TestPolledFilesystemGetsWorse(t *testing.T) {
	at := func(bytes, inodes uint64) Reading { // percent used
		return Reading{Disk: image.Disk{CapacityBytes: 1000, AvailableBytes: 1000 - 10*bytes, Inodes: 1000, InodesAvailable: 1000 - 10*inodes}}
	}
	for _, c := range []struct {
		name       string
		rated, now Reading
		want       bool
	}{
		{"below both", at(79, 79), at(79, 79), false},
		{"bytes reached", at(79, 79), at(80, 79), true},
		{"inodes reached", at(79, 89), at(79, 90), true},
		{"bytes as before", at(85, 50), at(85, 50), false},
		{"bytes worse", at(85, 50), at(86, 50), true},
		{"bytes above, inodes worse below their threshold", at(85, 50), at(85, 89), false},
		{"bytes above, inodes reached", at(85, 50), at(85, 90), true},
		{"inodes above, bytes reached", at(50, 95), at(80, 95), true},
		{"inodes above, bytes worse below their threshold", at(50, 95), at(79, 95), false},
		{"inodes above and worse", at(50, 95), at(50, 96), true},
	} {
		f := &Filesystem{Reading: c.rated, Thresholds: image.Policy{HighPercent: 80, LowPercent: 75, InodesHighPercent: 90, InodesLowPercent: 85}}
		f.rate()
		if got := f.deserves(c.now); got != c.want {
			t.Errorf("%s: it deserves a look: %v, want %v", c.name, got, c.want)
		}
	}
}
