package image

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// spread is what nodes lead to, found by trying every edge as often as there are nodes.
func spread(g Graph, from []NodeID) map[NodeID]bool {
	found := map[NodeID]bool{}
	for _, id := range from {
		if int(id) < len(g.Nodes) {
			found[id] = true
		}
	}
	for range g.Nodes {
		for id, n := range g.Nodes {
			for _, to := range n.Refs {
				if found[NodeID(id)] && int(to) < len(g.Nodes) {
					found[to] = true
				}
			}
		}
	}
	return found
}

func (o oracle) weigh(nodes map[NodeID]bool) (s Size) {
	for id := range nodes {
		s.Bytes, s.Inodes = s.Bytes+o.s.Graph.Nodes[id].Bytes, s.Inodes+o.s.Graph.Nodes[id].Inodes
	}
	return s
}

// account is the naive answer: for each image the nodes that it leads to, and of those what
// nothing else does.
func (o oracle) account() (lines []ImageAccount) {
	g := o.s.Graph
	for _, img := range o.s.Images {
		if slices.ContainsFunc(lines, func(l ImageAccount) bool { return l.ImageID == img.ID }) {
			continue
		}
		line := ImageAccount{ImageID: img.ID, NominalBytes: img.NominalBytes}
		var mine, rest []NodeID
		for _, other := range o.s.Images {
			if other.ID == img.ID {
				mine = append(mine, other.Roots...)
			} else {
				rest = append(rest, other.Roots...)
			}
		}
		for _, h := range g.Holders {
			rest = append(rest, h.Nodes...)
		}
		all, others := spread(g, mine), spread(g, rest)
		own, shared := map[NodeID]bool{}, map[NodeID]bool{}
		for id := range all {
			if others[id] {
				shared[id] = true
			} else {
				own[id] = true
			}
			if n := g.Nodes[id]; n.Kind == NodeSnapshot && n.Bytes+n.Inodes == 0 {
				line.Unmeasured++
			}
		}
		line.Own, line.Shared, line.Total = o.weigh(own), o.weigh(shared), o.weigh(all)
		lines = append(lines, line)
	}
	return lines
}

// genStore draws a snapshot with all that an account distinguishes.
func genStore(t *rapid.T) Snapshot {
	s := genSnapshot(t)
	n := len(s.Graph.Nodes)
	for i := range s.Graph.Nodes {
		s.Graph.Nodes[i].Partial = rapid.Bool().Draw(t, "partial")
		s.Graph.Nodes[i].Created = Timestamp(rapid.SampledFrom([]int{0, 1000, 2000, 3000}).Draw(t, "created"))
	}
	for range rapid.IntRange(0, 2).Draw(t, "holders") {
		kind := rapid.SampledFrom([]string{"image", "container", "lease", "zoo", "attic"}).Draw(t, "kind")
		s.Graph.Holders = append(s.Graph.Holders, Holder{Kind: kind, Nodes: genIDs(t, n, 3)})
	}
	for range rapid.IntRange(0, 2).Draw(t, "expired") {
		s.Graph.Expired = append(s.Graph.Expired, Holder{Kind: rapid.SampledFrom([]string{"lease", "image"}).Draw(t, "kind"), Nodes: genIDs(t, n, 3)})
	}
	if len(s.Images) > 0 && rapid.IntRange(0, 9).Draw(t, "twice") == 0 {
		s.Images = append(s.Images, s.Images[0])
		s.Images[len(s.Images)-1].Roots = genIDs(t, n, 2)
		s.Images[len(s.Images)-1].NominalBytes = s.Images[0].NominalBytes
	}
	return s
}

func TestAccountAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genStore(t)
		got, want := Account(s.Graph, s.Images), oracle{s, noon}.account()
		byID := cmpopts.SortSlices(func(a, b ImageAccount) bool { return a.ImageID < b.ImageID })
		if diff := gocmp.Diff(want, got.Images, byID, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-oracle +Account:\n%s", diff)
		}
		if !slices.IsSortedFunc(got.Images, func(a, b ImageAccount) int { return cmpStrings(a.ImageID, b.ImageID) }) {
			t.Fatalf("not by ID: %+v", got.Images)
		}
		for _, line := range got.Images {
			if one, found := AccountOf(s.Graph, s.Images, line.ImageID); !found || one != line {
				t.Fatalf("of all %+v, of one %+v", line, one)
			}
		}
		if _, found := AccountOf(s.Graph, s.Images, "nobody's"); found {
			t.Fatal("there is an image that is not there")
		}
	})
}

// What images, other holders and nobody have is everything, each node once: what the first
// in line leads to is taken away for those behind it.
func TestAccountAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genStore(t)
		g, taken := s.Graph, map[NodeID]bool{}
		take := func(by string, from []NodeID) Entry {
			e := Entry{By: by}
			for id := range spread(g, from) {
				if !taken[id] {
					taken[id] = true
					tally(&e, g, id)
				}
			}
			return e
		}
		var want Accounts
		var images []NodeID
		for _, img := range s.Images {
			images = append(images, img.Roots...)
		}
		want.Held = take("", images).Size
		for _, kind := range []string{"image", "container", "lease", "attic", "zoo"} {
			nodes, count := nodesOf(g.Holders, kind)
			if e := take(kind, nodes); count > 0 {
				e.Count = count
				want.Others = append(want.Others, e)
			}
		}
		expired, count := nodesOf(g.Expired, "")
		nobody := map[string]Entry{}
		if e := take(NobodyExpired, expired); count > 0 {
			e.Count = count
			nobody[e.By] = e
		}
		for id, n := range g.Nodes {
			if taken[NodeID(id)] {
				continue
			}
			by := map[NodeKind]string{NodeSnapshot: NobodySnapshots, NodeBlob: NobodyBlobs, NodeRecord: NobodyRecords}[n.Kind]
			if n.Partial && n.Kind == NodeBlob {
				by = NobodyIngests
			}
			e := nobody[by]
			e.By, e.Count = by, e.Count+1
			tally(&e, g, NodeID(id))
			nobody[by] = e
		}
		for _, by := range []string{NobodyExpired, NobodySnapshots, NobodyBlobs, NobodyIngests, NobodyRecords} {
			if e, ok := nobody[by]; ok {
				want.Nobody = append(want.Nobody, e)
			}
		}
		got, all := Account(g, s.Images), Size{}
		for _, e := range slices.Concat([]Entry{{Size: got.Held}}, got.Others, got.Nobody) {
			all = Size{all.Bytes + e.Bytes, all.Inodes + e.Inodes}
		}
		if got.Total != all || all != g.total().size() {
			t.Fatalf("in all %v, the parts are %v", got.Total, all)
		}
		for _, e := range got.Nobody {
			if !slices.IsSortedFunc(e.Nodes, func(a, b NodeID) int { return cmp.Compare(g.Nodes[b].Bytes, g.Nodes[a].Bytes) }) {
				t.Fatalf("%s: %v is not the largest first", e.By, e.Nodes)
			}
		}
		ignore := cmpopts.IgnoreFields(Accounts{}, "Images", "Total", "Empty", "NominalBytes", "Unread")
		if diff := gocmp.Diff(want, got, ignore, cmpopts.IgnoreFields(Entry{}, "Nodes"), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-oracle +Account:\n%s", diff)
		}
	})
}

// tally adds a node to an entry.
func tally(e *Entry, g Graph, id NodeID) {
	n := g.Nodes[id]
	e.Bytes, e.Inodes = e.Bytes+n.Bytes, e.Inodes+n.Inodes
	if n.Kind == NodeSnapshot && n.Bytes+n.Inodes == 0 {
		e.Unmeasured++
	}
	if at := time.Unix(int64(n.Created), 0).UTC(); n.Created > 0 && (e.Oldest.IsZero() || at.Before(e.Oldest)) {
		e.Oldest = at
	}
}

// nodesOf are the nodes of the holders of a kind, or of any.
func nodesOf(holders []Holder, kind string) (nodes []NodeID, count int) {
	for _, h := range holders {
		if kind == "" || h.Kind == kind {
			nodes, count = append(nodes, h.Nodes...), count+1
		}
	}
	return nodes, count
}

// An image's own size is what Decide computes for a plan of it alone.
func TestOwnIsWhatAPlanFrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genStore(t)
		if len(s.Images) == 0 {
			t.Skip("no images")
		}
		id := rapid.SampledFrom(s.Images).Draw(t, "image").ID
		accounts := Account(s.Graph, s.Images).Images
		own := accounts[slices.IndexFunc(accounts, func(a ImageAccount) bool { return a.ImageID == id })].Own
		alone := Snapshot{
			Policy: Policy{HighPercent: 1, InodesHighPercent: 1}, Graph: s.Graph,
			Disk: Disk{CapacityBytes: math.MaxUint64, Inodes: math.MaxUint64},
		}
		for _, img := range s.Images {
			alone.Images = append(alone.Images, Image{ID: img.ID, Roots: img.Roots, Pinned: img.ID != id})
		}
		plan := Decide(alone, noon)
		if listedTwice := len(accounts) < len(s.Images); listedTwice || own == (Size{}) {
			return // never goes, or frees nothing
		}
		if len(plan.Remove) != 1 || (Size{plan.Remove[0].FreesBytes, plan.Remove[0].FreesInodes}) != own {
			t.Fatalf("own %v, but Decide: %+v", own, plan.Remove)
		}
	})
}

func TestAccountOfNothing(t *testing.T) {
	want := Accounts{Empty: Entry{By: "empty"}}
	if diff := gocmp.Diff(want, Account(Graph{}, nil), cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
}

// An image of the most layers that overlayfs takes, a base that others have, and 27 that
// only it has.
func TestManyLayers(t *testing.T) {
	b := &graphOf{}
	var chain []NodeID
	top := b.snapshot(1)
	for i := range 126 {
		top = b.snapshot(1<<i%7, top)
		chain = append(chain, top)
	}
	images := []Image{{ID: "deep", Roots: []NodeID{b.record(top)}}, {ID: "shallow", Roots: []NodeID{b.record(chain[98])}}}
	a := Account(b.Graph, images)
	if deep, shallow := a.Images[0], a.Images[1]; deep.Own.Inodes != 270 || deep.Shared != shallow.Total || shallow.Own != (Size{}) || deep.Total.Inodes != 1270 {
		t.Errorf("%+v", a.Images)
	}
}

// Figures beyond 64 bits saturate.
func TestAccountSaturates(t *testing.T) {
	b := &graphOf{}
	images := []Image{
		{ID: "a", Roots: []NodeID{b.snapshot(math.MaxUint64), b.snapshot(5)}, NominalBytes: math.MaxUint64},
		{ID: "b", Roots: []NodeID{b.snapshot(math.MaxUint64)}, NominalBytes: 1},
	}
	a := Account(b.Graph, images)
	if a.Images[0].Own.Bytes != math.MaxUint64 || a.Held.Bytes != math.MaxUint64 || a.Total.Bytes != math.MaxUint64 || a.NominalBytes != math.MaxUint64 {
		t.Errorf("%+v", a)
	}
}

func TestTimestamp(t *testing.T) {
	for _, test := range []struct {
		at   time.Time
		want Timestamp
	}{
		{time.Time{}, 0}, {time.Unix(0, 0), 0}, {time.Unix(-5, 0), 0}, {time.Unix(1, 999), 1},
		{time.Unix(math.MaxUint32, 0), math.MaxUint32}, {time.Unix(math.MaxUint32+1, 0), 0},
	} {
		if got := TimestampOf(test.at); got != test.want {
			t.Errorf("%v is %d, want %d", test.at, got, test.want)
		}
		if back := test.want.Time(); test.want != 0 && !back.Equal(test.at.Truncate(time.Second)) || test.want == 0 && !back.IsZero() {
			t.Errorf("%d is %v", test.want, back)
		}
	}
}

// The benchmark's store costs little per image, whatever their number.
func TestAccountAllocates(t *testing.T) {
	for _, images := range []int{100, 10_000} {
		g, list := pulled(images)
		allocated := testing.AllocsPerRun(1, func() { Account(g, list) })
		if allocated > 60 {
			t.Errorf("%d images: %v allocations", images, allocated)
		}
		if a := Account(g, list); fmt.Sprint(a.Nobody) != "[]" || a.Empty.Count > 0 {
			t.Errorf("nobody has %+v, empty %+v", a.Nobody, a.Empty)
		}
	}
}
