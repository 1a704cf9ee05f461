package growth

import (
	"math"
	"testing"
	"time"
)

const gib = 1 << 30

// at makes readings of a disk of 100 GiB.
func at(seconds int, available, reclaimed uint64) Reading {
	return Reading{At: time.Duration(seconds) * time.Second, Capacity: 100 * gib, Available: available, Reclaimed: reclaimed}
}

func TestSecondsToFull(t *testing.T) {
	inf := math.Inf(1)
	const unknown = -1
	for name, test := range map[string]struct {
		readings []Reading
		want     float64
	}{
		"nothing is read yet":                       {nil, unknown},
		"one reading gives no rate":                 {[]Reading{at(0, 50*gib, 0)}, unknown},
		"two that are too close":                    {[]Reading{at(0, 50*gib, 0), at(9, 40*gib, 0)}, unknown},
		"10 GiB in 10 s, 40 are left":               {[]Reading{at(0, 50*gib, 0), at(10, 40*gib, 0)}, 40},
		"the same with a reading in between":        {[]Reading{at(0, 50*gib, 0), at(1, 49*gib, 0), at(10, 40*gib, 0)}, 40},
		"nothing changes":                           {[]Reading{at(0, 50*gib, 0), at(60, 50*gib, 0)}, inf},
		"it empties":                                {[]Reading{at(0, 50*gib, 0), at(60, 51*gib, 0)}, inf},
		"full at the first look":                    {[]Reading{at(0, 0, 0)}, 0},
		"full, and no longer filled":                {[]Reading{at(0, 0, 0), at(600, 0, 0)}, 0},
		"removals keep it where it is":              {[]Reading{at(0, 20*gib, 0), at(100, 20*gib, 10*gib)}, 200},
		"a removal freed more than came":            {[]Reading{at(0, 20*gib, 0), at(100, 30*gib, 20*gib)}, 300},
		"what writers delete counts":                {[]Reading{at(0, 20*gib, 0), at(100, 30*gib, 0)}, inf},
		"the same moment twice":                     {[]Reading{at(0, 50*gib, 0), at(10, 40*gib, 0), at(10, 1*gib, 0)}, 40},
		"an older reading comes late":               {[]Reading{at(0, 50*gib, 0), at(10, 40*gib, 0), at(5, 1*gib, 0)}, 40},
		"one from before a removal comes late":      {[]Reading{at(0, 50*gib, 0), at(100, 50*gib, 10*gib), at(5, 49*gib, 0)}, 500},
		"the disk was enlarged":                     {[]Reading{{Capacity: 50 * gib, Available: 5 * gib}, at(60, 55*gib, 0), at(160, 45*gib, 0)}, 450},
		"what was reclaimed is counted anew":        {[]Reading{at(0, 50*gib, 9*gib), at(60, 50*gib, 0), at(160, 40*gib, 0)}, 400},
		"a byte in an hour is as good as none":      {[]Reading{at(0, 50*gib, 0), at(3600, 50*gib-1, 0)}, inf},
		"a burst half a day ago has faded away":     {[]Reading{at(0, 50*gib, 0), at(10, 40*gib, 0), at(43200, 40*gib, 0)}, inf},
		"no capacity: a filesystem without inodes":  {[]Reading{{}, {At: time.Minute}}, 0},
		"available grows beyond what signed counts": {[]Reading{at(0, 0, 0), at(60, math.MaxUint64, 0)}, 0x1p64 / (1.0 / 60)},
	} {
		var r Rate
		for _, x := range test.readings {
			r.Add(x)
		}
		got, known := r.SecondsToFull()
		if !known {
			got = unknown
		}
		if want := test.want; name == "available grows beyond what signed counts" {
			// Nonsense in; what matters is that an answer comes out.
			if math.IsNaN(got) || got < 0 {
				t.Errorf("%s: %v", name, got)
			}
		} else if got != want && math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: full in %v s, want %v", name, got, want)
		}
	}
}

// What was a window ago weighs 1/e of what is now.
func TestOldGrowthFades(t *testing.T) {
	var r Rate
	window := int(Window.Seconds())
	r.Add(at(0, 100*gib, 0))
	r.Add(at(100*window, 100*gib, 0)) // long quiet
	r.Add(at(100*window+1, 99*gib, 0))
	burst, _ := r.PerSecond()
	r.Add(at(101*window+1, 99*gib, 0))
	later, _ := r.PerSecond()
	if ratio := later / burst; math.Abs(ratio-1/math.E) > 1e-9 {
		t.Errorf("after a window, %v of the rate are left, want 1/e", ratio)
	}
}
