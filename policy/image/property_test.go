package image

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// genTime draws a time around noon, or one that is not known. Few values, so
// that ties are common.
func genTime(t *rapid.T, name string) time.Time {
	minutes := rapid.SampledFrom([]int{-1, 0, 1, 2, 3, 5, 8, 60, 240, 1440, -30, -1440}).Draw(t, name)
	if minutes == -1 {
		return time.Time{}
	}
	return noon.Add(-time.Duration(minutes) * time.Minute)
}

// genPolicy draws a policy that validates.
func genPolicy(t *rapid.T) Policy {
	p := Policy{HighPercent: rapid.IntRange(1, 100).Draw(t, "high")}
	p.LowPercent = rapid.IntRange(0, p.HighPercent-1).Draw(t, "low")
	if rapid.Bool().Draw(t, "inode thresholds") {
		p.InodesHighPercent = rapid.IntRange(1, 100).Draw(t, "inodes high")
		p.InodesLowPercent = rapid.IntRange(0, p.InodesHighPercent-1).Draw(t, "inodes low")
	}
	p.FutileShare = rapid.SampledFrom([]int{0, 0, 1, 5, 20, 100}).Draw(t, "futile share")
	p.MinimumAge = time.Duration(rapid.SampledFrom([]int{0, 2, 5}).Draw(t, "minimum age")) * time.Minute
	p.MaximumAge = time.Duration(rapid.SampledFrom([]int{0, 0, 5, 60, 300}).Draw(t, "maximum age")) * time.Minute
	return p
}

func genNodes(t *rapid.T, n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{
			Kind:   rapid.SampledFrom([]NodeKind{NodeSnapshot, NodeSnapshot, NodeBlob, NodeRecord}).Draw(t, "kind"),
			Bytes:  uint64(rapid.SampledFrom([]int{0, 0, 1, 5, 20, 60, 150}).Draw(t, "bytes")),
			Inodes: uint64(rapid.IntRange(0, 30).Draw(t, "inodes")),
			// Any node may refer to any, itself and those that do not exist included.
			Refs: genIDs(t, n, 2),
		}
	}
	return nodes
}

func genIDs(t *rapid.T, n, most int) []NodeID {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) NodeID {
		return NodeID(rapid.IntRange(0, n).Draw(t, "node"))
	}), 0, most).Draw(t, "nodes")
}

func genImage(t *rapid.T, i, nodes int) Image {
	img := Image{
		ID:       fmt.Sprintf("image %d", i),
		LastUsed: genTime(t, "last used"),
		Arrived:  genTime(t, "arrived"),
		Observed: genTime(t, "observed"),
		Roots:    rapid.SliceOfN(rapid.Custom(func(t *rapid.T) NodeID { return NodeID(rapid.IntRange(0, max(nodes-1, 0)).Draw(t, "root")) }), 0, 3).Draw(t, "roots"),
	}
	switch rapid.IntRange(0, 20).Draw(t, "special") {
	case 0:
		img.UsedBy = []string{"container k8s.io/a", "container k8s.io/b"}
	case 1:
		img.Wanted = []string{"default/pod"}
	case 2:
		img.Pinned = true
	case 3:
		img.Sandbox = true
	case 4:
		img.Keep = "**"
	case 5:
		img.Pinned, img.UsedBy = true, []string{"container k8s.io/a"}
	case 6:
		img.Unread = "s"
	case 7:
		img.Unread, img.UsedBy = "s", []string{"container k8s.io/a"}
	}
	return img
}

func genSnapshot(t *rapid.T) Snapshot {
	s := Snapshot{Policy: genPolicy(t)}
	s.Disk.CapacityBytes = uint64(rapid.IntRange(0, 1000).Draw(t, "capacity"))
	s.Disk.AvailableBytes = uint64(rapid.IntRange(0, 1000).Draw(t, "available"))
	s.Disk.Inodes = uint64(rapid.IntRange(0, 300).Draw(t, "inodes"))
	s.Disk.InodesAvailable = uint64(rapid.IntRange(0, 300).Draw(t, "inodes available"))
	n := rapid.IntRange(0, 14).Draw(t, "number of nodes")
	s.Graph.Nodes = genNodes(t, n)
	if rapid.Bool().Draw(t, "holder") {
		s.Graph.Holders = []Holder{{Kind: "lease", Name: "default/l", Nodes: genIDs(t, n, 3)}}
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "number of images") {
		s.Images = append(s.Images, genImage(t, i, n))
	}
	if rapid.IntRange(0, 2).Draw(t, "pods are not known") == 0 {
		s.Pods = Pods{Unknown: true, Answered: genTime(t, "pods answered")}
	}
	s.ReclaimingBytes = rapid.IntRange(0, 5).Draw(t, "reclaiming") == 0
	s.ReclaimingInodes = rapid.IntRange(0, 5).Draw(t, "reclaiming inodes") == 0
	if rapid.IntRange(0, 2).Draw(t, "in a hold") == 0 {
		s.Hold = &Hold{
			Since:           noon.Add(-time.Hour),
			Bytes:           rapid.Bool().Draw(t, "hold for bytes"),
			Inodes:          rapid.Bool().Draw(t, "hold for inodes"),
			AvailableBytes:  s.Disk.AvailableBytes + uint64(rapid.IntRange(0, 20).Draw(t, "worse by")),
			InodesAvailable: s.Disk.InodesAvailable + uint64(rapid.IntRange(0, 6).Draw(t, "inodes worse by")),
			NeedBytes:       uint64(rapid.SampledFrom([]int{0, 100, 900}).Draw(t, "needed")),
			NeedInodes:      uint64(rapid.SampledFrom([]int{0, 30, 250}).Draw(t, "inodes needed")),
		}
		for i := range 8 {
			if rapid.Bool().Draw(t, "in the hold") {
				s.Hold.Images = append(s.Hold.Images, fmt.Sprintf("image %d", i))
			}
			if rapid.IntRange(0, 20).Draw(t, "unread in the hold") == 0 {
				s.Hold.Unread = append(s.Hold.Unread, fmt.Sprintf("image %d", i))
			}
		}
	}
	return s
}

// makeNonsense of some snapshots: what Decide refuses.
func makeNonsense(t *rapid.T, s *Snapshot) {
	switch rapid.IntRange(0, 15).Draw(t, "nonsense") {
	case 0:
		s.Blocked = "the sandbox image is unknown"
	case 1:
		s.Policy.LowPercent = s.Policy.HighPercent
	case 2:
		if len(s.Images) > 0 {
			s.Images = append(s.Images, s.Images[0])
		}
	case 3:
		if len(s.Images) > 0 {
			s.Images[0].Roots = append(s.Images[0].Roots, NodeID(len(s.Graph.Nodes)))
		}
	case 4:
		if len(s.Images) > 0 {
			s.Images[0].ID = ""
		}
	}
}

func TestDecideAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		makeNonsense(t, &s)
		got, want := Decide(s, noon), oracle{s, noon}.decide()
		if diff := cmp.Diff(want, summarize(got), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-oracle +Decide:\n%s", diff)
		}
	})
}

func summarize(p Plan) verdict {
	v := verdict{Kept: make(map[string]Reason), Need: [2]uint64{p.NeedBytes, p.NeedInodes}}
	if h := p.Hold; h != nil {
		v.Hold = &holds{h.Unread, h.Images}
	}
	for _, d := range p.Remove {
		d.Detail = ""
		v.Remove = append(v.Remove, d)
	}
	for _, d := range p.Keep {
		v.Kept[d.ImageID] = d.Reason
	}
	return v
}

// The most important rules, checked without the oracle.
func TestDecideInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		plan := Decide(s, noon)
		if err := sane(s, plan, noon); err != nil {
			t.Fatal(err)
		}
		var freed weight
		for _, d := range plan.Remove {
			freed = freed.add(weight{bytes: d.FreesBytes, inodes: d.FreesInodes})
		}
		need := weight{bytes: plan.NeedBytes, inodes: plan.NeedInodes}
		if !freed.covers(need) && plan.Hold == nil {
			t.Fatalf("frees %v of %v, and no hold", freed, need)
		}
		if plan.Hold == nil && need != (weight{}) {
			minimal(t, s, plan, need)
		}
	})
}

// sane holds for any snapshot whatever.
func sane(s Snapshot, plan Plan, now time.Time) error {
	byID := make(map[string]Image)
	for _, img := range s.Images {
		byID[img.ID] = img
	}
	seen := make(map[string]bool)
	for _, d := range slices.Concat(plan.Remove, plan.Keep) {
		if _, ok := byID[d.ImageID]; !ok || seen[d.ImageID] {
			return fmt.Errorf("image %q is decided on twice, or does not exist", d.ImageID)
		}
		seen[d.ImageID] = true
		if d.Reason == "" || d.Detail == "" {
			return fmt.Errorf("decision on %q without a reason: %+v", d.ImageID, d)
		}
	}
	if len(seen) != len(byID) {
		return fmt.Errorf("%d decisions on %d images", len(seen), len(byID))
	}
	if !slices.IsSortedFunc(plan.Keep, func(a, b Decision) int { return cmpStrings(a.ImageID, b.ImageID) }) {
		return fmt.Errorf("kept images are not in order")
	}
	for _, d := range plan.Remove {
		img := byID[d.ImageID]
		if s.Blocked != "" || len(img.UsedBy)+len(img.Wanted) > 0 || img.Pinned || img.Sandbox || img.Keep != "" {
			return fmt.Errorf("removes %q, which must stay: %+v", d.ImageID, img)
		}
		arrived := known(img.Arrived, img.Observed)
		if s.Policy.MinimumAge > 0 && (arrived.IsZero() || now.Before(arrived.Add(s.Policy.MinimumAge))) {
			return fmt.Errorf("removes %q, which is too young", d.ImageID)
		}
	}
	if !plan.Next.IsZero() && !plan.Next.After(now) {
		return fmt.Errorf("next is %v, now is %v", plan.Next, now)
	}
	if plan.Hold != nil && plan.NeedBytes == 0 && plan.NeedInodes == 0 {
		return fmt.Errorf("a hold without a need")
	}
	return nil
}

func cmpStrings(a, b string) int {
	if a < b {
		return -1
	}
	if a > b {
		return 1
	}
	return 0
}

// minimal checks that the last removal for the disk's sake was needed.
func minimal(t *rapid.T, s Snapshot, plan Plan, need weight) {
	var gone []string
	for _, d := range plan.Remove {
		gone = append(gone, d.ImageID)
	}
	for i, d := range plan.Remove {
		if i != len(plan.Remove)-1 || d.Reason != RemovedThreshold {
			continue
		}
		bytes, inodes, _, _ := oracle{s, noon}.freed(gone[:i])
		if bytes >= need.bytes && inodes >= need.inodes {
			t.Fatalf("%q goes although the low threshold is reached before", d.ImageID)
		}
	}
}

func TestDecideIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		want := Decide(s, noon)
		shuffled := s
		shuffled.Images = slices.Clone(s.Images)
		shuffled.Graph.Holders = slices.Clone(s.Graph.Holders)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		r.Shuffle(len(shuffled.Images), func(i, j int) {
			shuffled.Images[i], shuffled.Images[j] = shuffled.Images[j], shuffled.Images[i]
		})
		if diff := cmp.Diff(want, Decide(shuffled, noon)); diff != "" {
			t.Fatalf("the order of the images changes the plan:\n%s", diff)
		}
		if diff := cmp.Diff(want, Decide(s, noon)); diff != "" {
			t.Fatalf("the same snapshot gives another plan:\n%s", diff)
		}
	})
}

// Nothing changes by itself before Next.
func TestNextIsTheFirstChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		plan := Decide(s, noon)
		until := 48 * time.Hour
		if !plan.Next.IsZero() {
			until = plan.Next.Sub(noon) - 1
		}
		later := noon.Add(time.Duration(rapid.Int64Range(0, int64(until)).Draw(t, "later")))
		after := summarize(Decide(s, later))
		if diff := cmp.Diff(summarize(plan).Remove, after.Remove); diff != "" {
			t.Fatalf("next is %v, but at %v:\n%s", plan.Next, later, diff)
		}
	})
}

// Asking again with the hold handed back gives the same plan: a plan cut short
// is taken up again, and a hold that lasts does not age.
func TestHoldIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		first := Decide(s, noon)
		if first.Hold == nil {
			t.Skip("no hold")
		}
		s.Hold = first.Hold
		again := Decide(s, noon)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("the second time:\n%s", diff)
		}
	})
}

// A resource is held until the disk has what the hold names, and no longer.
func TestHoldEndsAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		s.ReclaimingBytes, s.ReclaimingInodes = true, true // else it may end below the high threshold first
		first := Decide(s, noon)
		if first.Hold == nil {
			t.Skip("no hold")
		}
		s.Hold = first.Hold
		held := func(bytes, inodes uint64) (b, i bool) {
			s.Disk.AvailableBytes, s.Disk.InodesAvailable = bytes, inodes
			if p := Decide(s, noon); p.Hold != nil {
				return p.Hold.Bytes, p.Hold.Inodes
			}
			return false, false
		}
		h, disk := first.Hold, s.Disk
		if h.Bytes {
			if b, _ := held(h.EndsAtBytes, disk.InodesAvailable); b {
				t.Fatalf("bytes are held with %d available", h.EndsAtBytes)
			}
			if b, _ := held(h.EndsAtBytes-1, disk.InodesAvailable); !b {
				t.Fatalf("bytes are not held with %d available", h.EndsAtBytes-1)
			}
		}
		if h.Inodes {
			if _, i := held(disk.AvailableBytes, h.EndsAtInodes); i {
				t.Fatalf("inodes are held with %d available", h.EndsAtInodes)
			}
			if _, i := held(disk.AvailableBytes, h.EndsAtInodes-1); !i {
				t.Fatalf("inodes are not held with %d available", h.EndsAtInodes-1)
			}
		}
	})
}

// Once a hold's own images are gone, others that fall out of use stay, as long
// as the disk does not get worse and they cannot mend it.
func TestHoldDoesNotGrind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		s.Policy.MaximumAge = 0
		first := Decide(s, noon)
		if first.Hold == nil {
			t.Skip("no hold")
		}
		s.Hold = first.Hold
		for _, d := range first.Remove {
			s.Images = slices.DeleteFunc(s.Images, func(img Image) bool { return img.ID == d.ImageID })
		}
		for i := range s.Images {
			s.Images[i].Wanted, s.Images[i].UsedBy = nil, nil
		}
		second := Decide(s, noon)
		if second.Hold == nil || len(first.Hold.Images) > len(first.Remove) || first.Hold.Bytes != second.Hold.Bytes || first.Hold.Inodes != second.Hold.Inodes {
			t.Skip("they can mend it, or some of the hold's own are left")
		}
		if first.NeedBytes > 0 && !first.Hold.Bytes || first.NeedInodes > 0 && !first.Hold.Inodes {
			t.Skip("a threshold that can be reached is served")
		}
		if d := s.Disk; first.Hold.Bytes && d.AvailableBytes < percentUp(d.CapacityBytes, 1) || first.Hold.Inodes && d.InodesAvailable < percentUp(d.Inodes, 1) {
			t.Skip("nothing is left that could get worse")
		}
		if len(second.Remove) > 0 {
			t.Fatalf("grinds: %+v", second.Remove)
		}
	})
}

// Space names every used byte exactly once.
func TestSpaceAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		s.Disk.CapacityBytes += 5000 // more than the graph can hold
		s.Disk.AvailableBytes = uint64(rapid.IntRange(0, 500).Draw(t, "little"))
		plan := Decide(s, noon)
		if plan.Hold == nil {
			t.Skip("no hold")
		}
		var total uint64
		images := 0
		for i, line := range plan.Hold.Space {
			total += line.Bytes
			images += line.Images
			if i > 0 && line.Bytes > plan.Hold.Space[i-1].Bytes {
				t.Fatalf("not the largest first: %+v", plan.Hold.Space)
			}
		}
		for _, d := range plan.Remove {
			total += d.FreesBytes
		}
		if want := s.Disk.CapacityBytes - s.Disk.AvailableBytes; total != want {
			t.Fatalf("%d bytes named, %d used: %+v", total, want, plan.Hold.Space)
		}
		if images != len(plan.Keep) {
			t.Fatalf("%d images hold space, %d are kept", images, len(plan.Keep))
		}
	})
}

// Decide changes nothing it was given.
func TestDecideLeavesItsInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		if len(s.Images) > 1 {
			s.Images = append(s.Images, s.Images[0]) // merging must not write into Roots
		}
		before := fmt.Sprintf("%+v %+v", s, s.Hold)
		Decide(s, noon)
		if after := fmt.Sprintf("%+v %+v", s, s.Hold); after != before {
			t.Fatalf("before %s\nafter  %s", before, after)
		}
	})
}
