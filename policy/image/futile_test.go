package image

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// genShort draws a disk that is short of bytes, inodes or both, with images that
// hardly ever are enough, at the beginning of a hold or in one that goes on.
func genShort(t *rapid.T) Snapshot {
	n := rapid.IntRange(3, 12).Draw(t, "number of nodes")
	s := Snapshot{
		Policy: Policy{HighPercent: 80, LowPercent: 70, InodesHighPercent: 80, InodesLowPercent: 60},
		Disk: Disk{
			CapacityBytes: 5000, AvailableBytes: uint64(rapid.SampledFrom([]int{0, 900, 2000}).Draw(t, "available")),
			Inodes: 1000, InodesAvailable: uint64(rapid.SampledFrom([]int{0, 150, 500}).Draw(t, "inodes available")),
		},
		Graph: Graph{Nodes: genNodes(t, n)},
	}
	s.Policy.FutileShare = rapid.SampledFrom([]int{1, 3, 10, 30}).Draw(t, "futile share")
	for i := range rapid.IntRange(1, 8).Draw(t, "number of images") {
		s.Images = append(s.Images, genImage(t, i, n))
	}
	if rapid.Bool().Draw(t, "goes on") {
		s.Hold = &Hold{
			Since: noon, Bytes: true, Inodes: true,
			AvailableBytes: s.Disk.AvailableBytes, InodesAvailable: s.Disk.InodesAvailable,
			NeedBytes:  uint64(rapid.SampledFrom([]int{0, 2000, 4000}).Draw(t, "needed")),
			NeedInodes: uint64(rapid.SampledFrom([]int{0, 500, 900}).Draw(t, "inodes needed")),
		}
		for i := range 8 {
			if rapid.IntRange(0, 3).Draw(t, "in the hold") > 0 {
				s.Hold.Images = append(s.Hold.Images, fmt.Sprintf("image %d", i))
			}
		}
	}
	return s
}

func TestShortageAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genShort(t)
		want := oracle{s, noon}.decide()
		if diff := cmp.Diff(want, summarize(Decide(s, noon)), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-oracle +Decide:\n%s", diff)
		}
	})
}

// What is kept as futile stays so, without another image going, once the others of
// the plan are gone.
func TestFutileIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genShort(t)
		s.ReclaimingBytes, s.ReclaimingInodes = s.Disk.AvailableBytes < 1000, s.Disk.InodesAvailable < 200
		first := Decide(s, noon)
		if first.Hold == nil {
			t.Skip("no hold")
		}
		for _, d := range first.Remove {
			for i := range s.Images {
				if s.Images[i].ID == d.ImageID {
					s.Images = append(s.Images[:i:i], s.Images[i+1:]...)
					break
				}
			}
			s.Disk.AvailableBytes += d.FreesBytes
			s.Disk.InodesAvailable += d.FreesInodes
		}
		s.Hold = first.Hold
		second := Decide(s, noon)
		if second.Hold == nil || first.Hold.Bytes != second.Hold.Bytes || first.Hold.Inodes != second.Hold.Inodes {
			t.Skip("another threshold is reached, or cannot be any more")
		}
		if len(second.Remove) > 0 {
			t.Fatalf("after\n%+v\ngoes\n%+v", first, second.Remove)
		}
	})
}
