package volumes

import (
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Live is what the deletion of a volume needs, from a live read.
type Live struct {
	Driver, Handle string
	Namespace      string // of its claim
	Claim          string // name
	Secret         struct{ Namespace, Name string }
	Finalizer      int // index of the provisioner's; below 0: it has none
}

// Confirm reports whether the deletion that an action asks for may be done now; why is the
// reason against it. It is for a collector of the same Config that was filled from live lists
// of PersistentVolumes, PersistentVolumeClaims and VolumeAttachments, and of nothing else.
func (c *Collector) Confirm(now time.Time, a gc.Action) (v Live, why gc.Reason, ok bool) {
	c.SetTime(now)
	e := c.Objects().Get(a.Object.UID)
	if e == nil || e.volume == nil || e.Name != a.Object.Name || e.ResourceVersion != a.ResourceVersion || e.volume.driver != a.Driver || a.Driver == "" {
		return v, Changed, false
	}
	why, due := c.decide(e)
	switch {
	case due.IsZero():
		return v, why, false
	case due.After(now):
		return v, Changed, false
	case c.named(e):
		return v, Shared, false
	}
	v = Live{Driver: e.volume.driver, Handle: e.volume.handle, Secret: e.volume.secret, Finalizer: e.volume.finalizer - 1}
	v.Namespace, v.Claim, _ = strings.Cut(e.volume.claim, "/")
	return v, why, true
}

// named reports whether the source of a volume without CSI contains the handle of e. Before
// CSI migration, disks had volumes of in-tree types, whose sources name the same disks.
func (c *Collector) named(e *kept) bool {
	for other := range c.Objects().All {
		if v := other.volume; v != nil && v.driver == "" && strings.Contains(v.other, e.volume.handle) {
			return true
		}
	}
	return false
}
