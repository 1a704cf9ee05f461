package shadow

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// node is one with images that each free 10 of 1000 bytes.
type node struct {
	*Shadow
	now  time.Time
	look time.Time // when the shadow wants to look again
	is   image.Snapshot
}

func newNode(images int, change func(*config.Images)) *node {
	n := &node{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	n.is.Policy = image.Policy{HighPercent: 80, LowPercent: 70, MaximumAge: time.Hour}
	n.is.Disk = image.Disk{CapacityBytes: 1000, AvailableBytes: 500}
	for i := range images {
		n.is.Graph.Nodes = append(n.is.Graph.Nodes, image.Node{Kind: image.NodeSnapshot, Bytes: 10})
		used := n.now.Add(time.Duration(i-2*images) * time.Hour)
		n.is.Images = append(n.is.Images, image.Image{
			ID: fmt.Sprintf("image %02d", i), Roots: []image.NodeID{image.NodeID(i)}, NominalBytes: 4, LastUsed: used, Arrived: used, Observed: used,
		})
	}
	c := config.Default().Images
	change(&c)
	n.Shadow = New(prometheus.NewRegistry(), Options{
		Config: c, LookEvery: 5 * time.Minute, Now: func() time.Time { return n.now }, LookAgain: func(at time.Time) { n.look = at },
		Entry:   func(d image.Decision) page.HistoryEntry { return page.HistoryEntry{ID: d.ImageID} },
		History: history.New(prometheus.NewRegistry(), history.Options{Now: time.Now, Wall: time.Now}), Log: slog.New(slog.DiscardHandler),
	})
	n.Restore(state.New())
	return n
}

// wantGone checks how many images would be gone now.
func (n *node) wantGone(t *testing.T, when string, want int) {
	t.Helper()
	n.Decide("/", n.is)
	got := 0
	for _, i := range n.is.Images {
		if n.gone(i.ID) {
			got++
		}
	}
	if got != want {
		t.Errorf("%s: %d images would be gone, want %d", when, got, want)
	}
}

// A run that a cap has cut short ends if the high threshold is raised.
func TestRunEndsIfRaised(t *testing.T) {
	n := newNode(20, func(c *config.Images) { c.MaxRemovalsPerHour = "1" })
	n.is.Policy.MaximumAge = 0
	n.is.Disk.AvailableBytes = 150
	n.wantGone(t, "by the cap", 1)
	n.is.Disk.AvailableBytes = 240
	n.now = n.now.Add(time.Hour)
	n.wantGone(t, "the run goes on", 2)
	n.is.Policy.HighPercent = 95
	n.now = n.now.Add(time.Hour)
	n.wantGone(t, "raised", 2)
}

// No more would go than the hourly caps allow, and the shadow is asked again when they have room.
func TestCaps(t *testing.T) {
	t.Run("by age", func(t *testing.T) {
		n := newNode(20, func(c *config.Images) { c.AgeRemovalsPerHourPercent = 10 })
		for hour, want := range []int{2, 3, 4} { // of 20, 18 and 17
			n.wantGone(t, fmt.Sprintf("hour %d", hour), want)
			if want := n.now.Add(time.Hour); !n.look.Equal(want) {
				t.Errorf("looked at again at %v, want %v", n.look, want)
			}
			n.now = n.look
		}
	})
	t.Run("the disk needs more", func(t *testing.T) {
		n := newNode(20, func(c *config.Images) { c.AgeRemovalsPerHourPercent = 10 })
		n.is.Disk.AvailableBytes = 200 // to 300: ten images
		n.wantGone(t, "at once", 10)
	})
	t.Run("in all", func(t *testing.T) {
		n := newNode(20, func(c *config.Images) { c.MaxRemovalsPerHour = "3" })
		n.is.Disk.AvailableBytes = 200
		n.wantGone(t, "at once", 3)
		n.now = n.now.Add(59 * time.Minute)
		n.is.Disk.AvailableBytes = 220 // with three images, it is not above the threshold: the run goes on
		n.wantGone(t, "within the hour", 3)
		n.now = n.now.Add(time.Minute)
		n.wantGone(t, "after an hour", 6)
	})
}

// An image would be back when somebody needs it, whatever they need it for. It is as new as one that was pulled.
func TestComesBack(t *testing.T) {
	for name, need := range map[string]func(n *node, i *image.Image){
		"in use":           func(_ *node, i *image.Image) { i.UsedBy = []string{"container k8s.io/a"} },
		"wanted":           func(_ *node, i *image.Image) { i.Wanted = []string{"default/pod"} },
		"used in between":  func(n *node, i *image.Image) { i.LastUsed = n.now.Add(-time.Minute) },
		"pulled or tagged": func(n *node, i *image.Image) { i.Arrived = n.now.Add(-time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(3, func(c *config.Images) { c.AgeRemovalsPerHourPercent = 100 })
			n.is.Policy.MinimumAge = 10 * time.Minute
			n.wantGone(t, "all are old", 3)
			n.now = n.now.Add(23 * time.Hour)
			need(n, &n.is.Images[1])
			n.wantGone(t, "one is needed", 2)
			if o := n.Observation().Ebb; o.Again != 1 || o.PullBytes != 4 {
				t.Errorf("%d were needed again, with %d bytes", o.Again, o.PullBytes)
			}
			n.is.Images[1].UsedBy, n.is.Images[1].Wanted = nil, nil
			n.is.Policy.MaximumAge = 11 * time.Minute
			n.now = n.now.Add(10 * time.Minute)
			n.wantGone(t, "it is young", 2)
			n.now = n.now.Add(time.Minute)
			n.wantGone(t, "it is old enough", 3)
		})
	}
}

// Nobody needs an image because its users cannot be read.
func TestUnreadIsNoUse(t *testing.T) {
	n := newNode(3, func(c *config.Images) { c.AgeRemovalsPerHourPercent = 100 })
	n.wantGone(t, "all are old", 3)
	n.is.Images[1].Unread = "stargz"
	n.wantGone(t, "its users cannot be read", 3)
	if o := n.Observation().Ebb; o.Again != 0 {
		t.Errorf("%d were needed again", o.Again)
	}
}

// What is on record survives, and does not change what was saved.
func TestSaved(t *testing.T) {
	n := newNode(3, func(c *config.Images) { c.MaxRemovalsPerHour = "2" })
	n.is.Disk.AvailableBytes = 200
	n.wantGone(t, "before", 2)
	saved := state.New()
	n.Save(&saved)
	n.now = n.now.Add(time.Hour)
	n.wantGone(t, "an hour later", 3)
	if len(saved.Observed) != 2 || saved.Meta.Observation.Ebb.Images != 2 || len(saved.Meta.Observation.Removals) != 2 {
		t.Errorf("saved was %+v, %+v", saved.Observed, saved.Meta.Observation)
	}
	again := newNode(3, func(c *config.Images) { c.MaxRemovalsPerHour = "2" })
	again.is.Disk.AvailableBytes = 200
	again.Restore(saved)
	again.wantGone(t, "after a restart", 2)
	if !slices.Equal(again.sum.Removals, saved.Meta.Observation.Removals) {
		t.Errorf("removals are %v", again.sum.Removals)
	}
}

// A restart does not end a hold: what falls out of use while nothing helps stays.
func TestHoldIsSaved(t *testing.T) {
	n := newNode(2, func(*config.Images) {})
	n.is.Policy.MaximumAge = 0
	n.is.Images[1].UsedBy = []string{"container k8s.io/a"}
	n.is.Disk.AvailableBytes = 150 // to 300: no two images help
	n.wantGone(t, "all that may go", 1)
	saved := state.New()
	n.Save(&saved)
	n.is.Images[1].UsedBy = nil
	for name, from := range map[string]state.Records{"the same agent": saved.Clone(), "the next one": saved.Clone()} {
		if name == "the next one" {
			n.Restore(from)
		}
		n.wantGone(t, name, 1)
	}
}

// While the disk does not show yet what others removed, nothing else goes in its place.
func TestWaitsForWhatOthersRemoved(t *testing.T) {
	n := newNode(12, func(*config.Images) {})
	n.is.Policy.MaximumAge = 0
	n.is.Disk.AvailableBytes = 200
	n.wantGone(t, "to the low threshold", 10)
	n.Listed(&inventory.Inventory{}, []string{"image 00"})
	n.is.Images = n.is.Images[1:] // of which nothing shows
	n.wantGone(t, "at once", 9)
	n.now = n.look
	n.is.Disk.AvailableBytes = 210
	n.wantGone(t, "when it shows", 9)
}
