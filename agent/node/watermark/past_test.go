package watermark

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// A reading in five minutes is kept, and those of a day, whoever reads how often.
func TestPast(t *testing.T) {
	var p past
	for at := time.Duration(0); at < 48*time.Hour; at += 10 * time.Second {
		p.add(at, image.Disk{CapacityBytes: 100, AvailableBytes: 100 - uint64(at/time.Hour)})
	}
	if len(p) != pastMost || cap(p) > 2*pastMost {
		t.Fatalf("%d readings are kept, in %d places", len(p), cap(p))
	}
	for n := 1; n < len(p); n++ {
		if p[n].At-p[n-1].At != pastSpacing {
			t.Fatalf("readings at %v and %v", p[n-1].At, p[n].At)
		}
	}
	if last := p[len(p)-1]; last.Used != 47 {
		t.Errorf("the last reading is %+v", last)
	}
}
