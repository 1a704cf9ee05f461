package image

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// removedFrom is the snapshot of a node from which images were removed, and the runtime has collected what
// they led to: as Decide would read it the next time.
func removedFrom(s Snapshot, gone []string) Snapshot {
	bytes, inodes, _, nodes := oracle{s, noon}.freed(gone)
	s.Graph.Nodes = slices.Clone(s.Graph.Nodes)
	for id, went := range nodes {
		if went {
			s.Graph.Nodes[id] = Node{}
		}
	}
	s.Images = slices.DeleteFunc(slices.Clone(s.Images), func(i Image) bool { return slices.Contains(gone, i.ID) })
	s.Disk.AvailableBytes = max(s.Disk.AvailableBytes, min(s.Disk.AvailableBytes+bytes, s.Disk.CapacityBytes))
	s.Disk.InodesAvailable = max(s.Disk.InodesAvailable, min(s.Disk.InodesAvailable+inodes, s.Disk.Inodes))
	return s
}

// What is decided without some images is what would be decided had they been removed.
func TestWithoutIsAsIfRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		makeNonsense(t, &s)
		var gone []string
		for _, i := range s.Images {
			if rapid.Bool().Draw(t, "gone") {
				gone = append(gone, i.ID)
			}
		}
		isGone := func(id string) bool { return slices.Contains(gone, id) }
		images := slices.Clone(s.Images)
		without, removed := Without(s, isGone), removedFrom(s, gone)
		if diff := cmp.Diff(removed.Disk, without.Disk); diff != "" {
			t.Fatalf("the disk, -removed +without:\n%s", diff)
		}
		// What nothing leads to is there still, and no hold is for it.
		spaces := cmpopts.IgnoreFields(Hold{}, "Space")
		if diff := cmp.Diff(Decide(removed, noon), Decide(without, noon), spaces, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the plan, -removed +without:\n%s", diff)
		}
		if diff := cmp.Diff(images, s.Images); diff != "" {
			t.Fatalf("the given snapshot has changed:\n%s", diff)
		}
	})
}
