package watermark

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// A threshold that can be helped is never put off by the hold of the other resource.
func TestHoldOfOneResourceOnly(t *testing.T) {
	now := time.Now()
	disk := image.Disk{CapacityBytes: 1000, AvailableBytes: 500, Inodes: 1000, InodesAvailable: 50}
	f := &Filesystem{Reading: Reading{Disk: disk}}
	f.Thresholds = image.Policy{HighPercent: 80, LowPercent: 70, InodesHighPercent: 90, InodesLowPercent: 80}
	f.backoff.looked(&image.Hold{Inodes: true}, now)
	if wait := f.waits(now); wait != backoffLeast {
		t.Errorf("more inodes: wait %v, want %v", wait, backoffLeast)
	}
	f.AvailableBytes = 100
	if wait := f.waits(now); wait != 0 {
		t.Errorf("the threshold for bytes is reached, and waits %v", wait)
	}
	f.backoff.hold = nil
	f.AvailableBytes = 500
	if wait := f.waits(now); wait != 0 {
		t.Errorf("no hold, and a wait of %v", wait)
	}
}

// The pauses double up to a bound, whatever changes they stay above another, and
// they begin anew after a calm time.
func TestPausesOnHold(t *testing.T) {
	var c backoff
	hold := &image.Hold{Bytes: true}
	now := time.Now()
	last := time.Duration(0)
	for range 20 {
		c.looked(hold, now)
		pause := c.until.Sub(now)
		if pause < backoffLeast || pause > backoffMost || pause < min(2*last, backoffMost) {
			t.Fatalf("%v after %v", pause, last)
		}
		last, now = pause, c.until
	}
	c.looked(hold, now)
	c.changed(now)
	if wait := c.until.Sub(now); wait != backoffLeast {
		t.Errorf("after a change it waits %v", wait)
	}
	c.looked(hold, c.until)
	c.looked(nil, c.until)
	if c.pause == 0 {
		t.Error("a hold that ends and begins in a moment begins with no pause")
	}
	if c.looked(nil, c.until.Add(1)); c.pause != 0 {
		t.Error("a hold long ago still has its pause")
	}
}
