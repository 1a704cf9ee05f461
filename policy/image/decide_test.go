package image

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// full is a disk above its high threshold, with one image that can mend it.
func full() Snapshot {
	return Snapshot{
		Policy: Policy{HighPercent: 80, LowPercent: 75, MinimumAge: 2 * time.Minute},
		Disk:   Disk{CapacityBytes: 1000, AvailableBytes: 150},
		Images: []Image{{
			ID: "sha256:a", References: []string{"docker.io/library/a:1"}, Roots: []NodeID{0},
			LastUsed: noon.Add(-time.Hour), Arrived: noon.Add(-2 * time.Hour), Observed: noon.Add(-2 * time.Hour),
		}},
		Graph: Graph{Nodes: []Node{{Kind: NodeSnapshot, Bytes: 500, Inodes: 10}}},
	}
}

// Each change alone decides whether the only candidate goes.
func TestOneImage(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Snapshot, *Image)
		want   Reason
	}{
		{"nothing special", func(*Snapshot, *Image) {}, RemovedThreshold},
		{"used", func(_ *Snapshot, img *Image) { img.UsedBy = []string{"snapshot default/x"} }, KeptInUse},
		{"wanted", func(_ *Snapshot, img *Image) { img.Wanted = []string{"default/pod"} }, KeptWanted},
		{"pinned", func(_ *Snapshot, img *Image) { img.Pinned = true }, KeptPinned},
		{"sandbox", func(_ *Snapshot, img *Image) { img.Sandbox = true }, KeptSandbox},
		{"rule", func(_ *Snapshot, img *Image) { img.Keep = "docker.io/**" }, KeptByRule},
		{"blocked", func(s *Snapshot, _ *Image) { s.Blocked = "unknown sandbox image" }, KeptBlocked},
		{"a second before its age", func(_ *Snapshot, img *Image) { img.Arrived = noon.Add(-2*time.Minute + time.Second) }, KeptYoung},
		{"exactly old enough", func(_ *Snapshot, img *Image) { img.Arrived = noon.Add(-2 * time.Minute) }, RemovedThreshold},
		{"arrival unknown, seen lately", func(_ *Snapshot, img *Image) { img.Arrived, img.Observed = time.Time{}, noon.Add(-time.Minute) }, KeptYoung},
		{"arrival unknown, seen long ago", func(_ *Snapshot, img *Image) { img.Arrived = time.Time{} }, RemovedThreshold},
		{"arrives in the future", func(_ *Snapshot, img *Image) { img.Arrived = noon.Add(time.Hour) }, KeptYoung},
		{"nothing known", func(_ *Snapshot, img *Image) { *img = Image{ID: "x", Roots: img.Roots} }, KeptYoung},
		{"nothing known, no minimum age", func(s *Snapshot, img *Image) {
			s.Policy.MinimumAge = 0
			*img = Image{ID: "x", Roots: img.Roots}
		}, RemovedThreshold},
		{"came after the pods' answer", func(s *Snapshot, img *Image) {
			s.Pods = Pods{Unknown: true, Answered: img.Arrived.Add(-1)}
		}, KeptPodsUnknown},
		{"came at the pods' answer", func(s *Snapshot, img *Image) { s.Pods = Pods{Unknown: true, Answered: img.Arrived} }, KeptPodsUnknown},
		{"came before the pods' answer", func(s *Snapshot, img *Image) {
			s.Pods = Pods{Unknown: true, Answered: img.Arrived.Add(1)}
		}, RemovedThreshold},
		{"came after the pods' answer, but they answer now", func(s *Snapshot, img *Image) { s.Pods.Answered = img.Arrived.Add(-1) }, RemovedThreshold},
		{"an hour old, pods never known", func(s *Snapshot, img *Image) { s.Pods.Unknown, img.Arrived = true, noon.Add(-time.Hour) }, RemovedThreshold},
		{"not an hour old, pods never known", func(s *Snapshot, img *Image) { s.Pods.Unknown, img.Arrived = true, noon.Add(-time.Hour+1) }, KeptPodsUnknown},
		{"aged, but came after the pods' answer", func(s *Snapshot, img *Image) {
			s.Pods, s.Policy.MaximumAge = Pods{Unknown: true, Answered: img.Arrived}, time.Hour
		}, KeptPodsUnknown},
		{"no ID", func(_ *Snapshot, img *Image) { img.ID = "" }, KeptBlocked},
		{"a root outside the graph", func(_ *Snapshot, img *Image) { img.Roots = []NodeID{0, 1} }, KeptBlocked},
		{"the largest root", func(_ *Snapshot, img *Image) { img.Roots = []NodeID{math.MaxUint32} }, KeptBlocked},
		{"no roots", func(_ *Snapshot, img *Image) { img.Roots = nil }, KeptFreesNothing},
		{"held by a lease", func(s *Snapshot, _ *Image) { s.Graph.Holders = []Holder{{Nodes: []NodeID{0}}} }, KeptFreesNothing},
		{"held by a lease, but aged", func(s *Snapshot, _ *Image) {
			s.Graph.Holders = []Holder{{Nodes: []NodeID{0}}}
			s.Policy.MaximumAge = time.Hour
		}, RemovedAge},
		{"a reference outside the graph", func(s *Snapshot, _ *Image) { s.Graph.Nodes[0].Refs = []NodeID{99} }, RemovedThreshold},
		{"a holder outside the graph", func(s *Snapshot, _ *Image) { s.Graph.Holders = []Holder{{Nodes: []NodeID{99}}} }, RemovedThreshold},
		{"a cycle", func(s *Snapshot, _ *Image) {
			s.Graph.Nodes[0].Refs = []NodeID{1}
			s.Graph.Nodes = append(s.Graph.Nodes, Node{Refs: []NodeID{0}})
		}, RemovedThreshold},
		{"disk low enough", func(s *Snapshot, _ *Image) { s.Disk.AvailableBytes = 500 }, KeptNotNeeded},
		{"no disk", func(s *Snapshot, _ *Image) { s.Disk = Disk{} }, KeptNotNeeded},
		{"more available than there is", func(s *Snapshot, _ *Image) { s.Disk.AvailableBytes = 9999 }, KeptNotNeeded},
		{"off", func(s *Snapshot, _ *Image) { s.Policy.HighPercent = 100 }, KeptNotNeeded},
		{"no policy", func(s *Snapshot, _ *Image) { s.Policy = Policy{} }, KeptBlocked},
		{"low above high", func(s *Snapshot, _ *Image) { s.Policy.LowPercent = 90 }, KeptBlocked},
		{"aged to the second", func(s *Snapshot, _ *Image) { s.Policy.MaximumAge = time.Hour }, RemovedAge},
		{"not aged by a second", func(s *Snapshot, _ *Image) { s.Disk.AvailableBytes, s.Policy.MaximumAge = 500, time.Hour+time.Second }, KeptNotNeeded},
		{"aged, but observed lately", func(s *Snapshot, img *Image) {
			s.Disk.AvailableBytes, s.Policy.MaximumAge, img.Observed = 500, time.Hour, noon.Add(-time.Hour+1)
		}, KeptNotNeeded},
		{"aged, but in use", func(s *Snapshot, img *Image) {
			s.Policy.MaximumAge, img.UsedBy = time.Hour, []string{"container k8s.io/x"}
		}, KeptInUse},
		{"last use unknown counts from the observation", func(s *Snapshot, img *Image) {
			s.Disk.AvailableBytes, s.Policy.MaximumAge, img.LastUsed = 500, 2*time.Hour, time.Time{}
		}, RemovedAge},
		{"inodes low enough", func(s *Snapshot, _ *Image) {
			s.Disk = Disk{CapacityBytes: 1000, AvailableBytes: 900, Inodes: 100, InodesAvailable: 90}
			s.Policy.InodesHighPercent, s.Policy.InodesLowPercent = 80, 75
		}, KeptNotNeeded},
		{"out of inodes", func(s *Snapshot, _ *Image) {
			s.Disk = Disk{CapacityBytes: 1000, AvailableBytes: 900, Inodes: 100, InodesAvailable: 19}
			s.Policy.InodesHighPercent, s.Policy.InodesLowPercent = 80, 75
		}, RemovedThreshold},
		{"too few inodes to help", func(s *Snapshot, _ *Image) {
			s.Disk = Disk{CapacityBytes: 1000, AvailableBytes: 900, Inodes: 10000, InodesAvailable: 1500}
			s.Policy.InodesHighPercent, s.Policy.InodesLowPercent, s.Policy.FutileShare = 80, 75, 1
		}, KeptFutile},
		{"just enough inodes to be worth it", func(s *Snapshot, _ *Image) {
			s.Disk = Disk{CapacityBytes: 1000, AvailableBytes: 900, Inodes: 10000, InodesAvailable: 1501}
			s.Policy.InodesHighPercent, s.Policy.InodesLowPercent, s.Policy.FutileShare = 80, 75, 1
		}, RemovedThreshold},
		{"out of inodes without a threshold", func(s *Snapshot, _ *Image) {
			s.Disk = Disk{CapacityBytes: 1000, AvailableBytes: 900, Inodes: 100}
		}, KeptNotNeeded},
		{"inodes not counted", func(s *Snapshot, _ *Image) {
			s.Disk.AvailableBytes = 900
			s.Policy.InodesHighPercent, s.Policy.InodesLowPercent = 80, 75
		}, KeptNotNeeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := full()
			test.change(&s, &s.Images[0])
			plan := Decide(s, noon)
			all := append(plan.Remove, plan.Keep...)
			if len(all) != 1 || all[0].Reason != test.want {
				t.Fatalf("got %+v, want %s", all, test.want)
			}
			if removed := len(plan.Remove) == 1; removed != (test.want == RemovedThreshold || test.want == RemovedAge) {
				t.Errorf("%s, but removed is %v", test.want, removed)
			}
		})
	}
}

func TestNext(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Snapshot, *Image)
		want   time.Duration // from now; 0 for never
	}{
		{"only an event changes it", func(*Snapshot, *Image) {}, 0},
		{"young, and wanted gone", func(_ *Snapshot, img *Image) { img.Arrived = noon.Add(-30 * time.Second) }, 90 * time.Second},
		{"young, but the disk is low", func(s *Snapshot, img *Image) {
			s.Disk.AvailableBytes, img.Arrived = 900, noon.Add(-30*time.Second)
		}, 0},
		{"maximum age ahead", func(s *Snapshot, _ *Image) { s.Policy.MaximumAge = 3 * time.Hour }, 2 * time.Hour},
		{"observed later than used", func(s *Snapshot, img *Image) {
			s.Policy.MaximumAge, img.Observed = 3*time.Hour, noon.Add(-time.Minute)
		}, 3*time.Hour - time.Minute},
		// A forgotten image that was pulled again: young for longer than unused.
		{"aged before it is old enough", func(s *Snapshot, img *Image) {
			s.Disk.AvailableBytes, s.Policy.MaximumAge = 900, 2*time.Hour
			s.Policy.MinimumAge, img.Arrived = 2*time.Hour, noon.Add(-time.Second)
		}, 2*time.Hour - time.Second},
		{"in use", func(s *Snapshot, img *Image) {
			s.Policy.MaximumAge, img.UsedBy = 3*time.Hour, []string{"container k8s.io/x"}
		}, 0},
		{"blocked", func(s *Snapshot, _ *Image) { s.Policy.MaximumAge, s.Blocked = 3*time.Hour, "x" }, 0},
		{"at once due", func(s *Snapshot, _ *Image) { s.Policy.MaximumAge = time.Hour }, 0},
		{"times beyond the calendar", func(s *Snapshot, img *Image) {
			s.Policy.MaximumAge, img.LastUsed = time.Hour, time.Unix(math.MaxInt64, 0)
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := full()
			test.change(&s, &s.Images[0])
			want := time.Time{}
			if test.want != 0 {
				want = noon.Add(test.want)
			}
			if got := Decide(s, noon).Next; !got.Equal(want) {
				t.Errorf("next is %v, want %v", got, want)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	ago := func(minutes int) time.Time { return noon.Add(-time.Duration(minutes) * time.Minute) }
	s := full()
	s.Policy.LowPercent = 0 // everything goes
	s.Policy.MinimumAge = 0
	s.Images = []Image{
		{ID: "unknown"},
		{ID: "future", LastUsed: ago(-60), Arrived: ago(600), Observed: ago(600)},
		{ID: "last use unknown", Arrived: ago(500), Observed: ago(30)},
		{ID: "b", LastUsed: ago(40), Arrived: ago(90), Observed: ago(90)},
		{ID: "a", LastUsed: ago(40), Arrived: ago(90), Observed: ago(90)},
		{ID: "seen first", LastUsed: ago(40), Arrived: ago(90), Observed: ago(91)},
		{ID: "arrived first", LastUsed: ago(40), Arrived: ago(95), Observed: ago(50)},
		{ID: "oldest", LastUsed: ago(700), Arrived: ago(10), Observed: ago(10)},
	}
	s.Graph.Nodes = make([]Node, len(s.Images))
	for i := range s.Images {
		s.Graph.Nodes[i] = Node{Kind: NodeSnapshot, Bytes: 1}
		s.Images[i].Roots = []NodeID{NodeID(i)}
	}
	var got []string
	for _, d := range Decide(s, noon).Remove {
		got = append(got, d.ImageID)
	}
	want := []string{"oldest", "arrived first", "seen first", "a", "b", "last use unknown", "future", "unknown"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Figures of any size neither wrap nor divide by zero.
func TestHugeFigures(t *testing.T) {
	s := full()
	s.Disk = Disk{CapacityBytes: math.MaxUint64, AvailableBytes: math.MaxUint64 / 10}
	s.Graph.Nodes = []Node{{Kind: NodeSnapshot, Bytes: math.MaxUint64, Refs: []NodeID{1}}, {Kind: NodeBlob, Bytes: math.MaxUint64}}
	plan := Decide(s, noon)
	if len(plan.Remove) != 1 || plan.Remove[0].FreesBytes != math.MaxUint64 || plan.Hold != nil {
		t.Errorf("got %+v", plan)
	}
	s.Images[0].Pinned = true
	plan = Decide(s, noon)
	if plan.Hold == nil || len(plan.Hold.Space) != 1 || plan.Hold.Space[0] != (Space{By: string(KeptPinned), Bytes: math.MaxUint64, Images: 1}) {
		t.Errorf("got %+v", plan.Hold)
	}
}

// The caller's hold is not handed on by reference: it may be changed by either.
func TestBlockedCopiesTheHold(t *testing.T) {
	s := full()
	s.Blocked = "unknown sandbox image"
	s.Hold = &Hold{Since: noon.Add(-time.Hour), Bytes: true}
	plan := Decide(s, noon)
	if plan.Hold == s.Hold || !cmp.Equal(plan.Hold, s.Hold) {
		t.Errorf("got %+v, want a copy of %+v", plan.Hold, s.Hold)
	}
	s.Disk.AvailableBytes = 900
	if plan := Decide(s, noon); plan.Hold != nil {
		t.Errorf("the disk is low, yet the hold lasts: %+v", plan.Hold)
	}
}

// A hold for bytes does not apply to inodes: they get their own attempt, and
// the hold keeps its age.
func TestHoldSpreadsToTheOtherDimension(t *testing.T) {
	s := full()
	s.Policy.InodesHighPercent, s.Policy.InodesLowPercent = 80, 75
	s.Disk = Disk{CapacityBytes: 10000, AvailableBytes: 150, Inodes: 1000, InodesAvailable: 100}
	s.Hold = &Hold{Since: noon.Add(-time.Hour), Bytes: true, AvailableBytes: 150, InodesAvailable: 105}
	plan := Decide(s, noon)
	if len(plan.Remove) != 1 || plan.Hold == nil || !plan.Hold.Bytes || !plan.Hold.Inodes || !plan.Hold.Since.Equal(s.Hold.Since) {
		t.Fatalf("got %+v, hold %+v", plan.Remove, plan.Hold)
	}
	// The same, with inodes known to be stuck: nothing new.
	s.Hold.Inodes = true
	if plan := Decide(s, noon); len(plan.Remove) != 0 || plan.Keep[0].Reason != KeptHold {
		t.Errorf("got %+v", plan)
	}
}

// A monotonic clock reading in now must not count: the snapshot has wall times.
func TestWallClockOnly(t *testing.T) {
	now := time.Now()
	s := full()
	s.Images[0].LastUsed = now
	plan, wall := Decide(s, now), Decide(s, now.Round(0))
	if diff := cmp.Diff(wall, plan); diff != "" {
		t.Error(diff)
	}
	s.Images[0].Pinned = true
	if since := Decide(s, now).Hold.Since; strings.Contains(since.String(), "m=") {
		t.Errorf("the hold began at %v", since)
	}
}

func TestHumanBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB",
		3 << 30: "3.0 GiB", 2 << 40: "2.0 TiB", 7 << 50: "7.0 PiB", math.MaxUint64: "16.0 EiB",
	} {
		if got := humanBytes(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}
