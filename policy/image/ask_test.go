package image

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// ask decides for a need that somebody names: images of the maximum age are only the first
// in the order, and there is no hold.
func (o oracle) ask(need Size) (v verdict, most Size) {
	v = verdict{Kept: make(map[string]Reason), Need: [2]uint64{need.Bytes, need.Inodes}}
	if o.s.Blocked != "" || len(o.s.Policy.Validate()) > 0 {
		for _, img := range o.s.Images {
			v.Kept[img.ID] = KeptBlocked
		}
		return v, Size{}
	}
	var aged, rest []Image
	for _, img := range o.s.Images {
		if reason := o.fixed(img); reason != "" {
			v.Kept[img.ID] = reason
		} else if o.old(img) {
			aged = append(aged, img)
		} else {
			rest = append(rest, img)
		}
	}
	order := slices.Concat(o.inOrder(aged), o.inOrder(rest))
	bytes, inodes, _, _ := o.freed(order)
	most = Size{bytes, inodes}

	o.s.Hold = nil
	chosen, spared := o.choose(&v, nil, order)
	o.explain(&v, nil, o.named(order), chosen, spared)
	for i := range v.Remove {
		v.Remove[i].Reason = RemovedAsked
	}
	return v, most
}

func (o oracle) named(ids []string) (list []Image) {
	for _, id := range ids {
		list = append(list, o.s.Images[slices.IndexFunc(o.s.Images, func(img Image) bool { return img.ID == id })])
	}
	return list
}

// inOrder takes, again and again, the image that was unused longest.
func (o oracle) inOrder(images []Image) (ids []string) {
	for len(images) > 0 {
		first := 0
		for i := range images {
			if o.before(images[i], images[first]) {
				first = i
			}
		}
		ids = append(ids, images[first].ID)
		images = slices.Delete(slices.Clone(images), first, first+1)
	}
	return ids
}

func TestAskAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		switch rapid.IntRange(0, 9).Draw(t, "nonsense") {
		case 0:
			s.Blocked = "the sandbox image is unknown"
		case 1:
			s.Policy.LowPercent = s.Policy.HighPercent
		}
		need := Size{
			uint64(rapid.SampledFrom([]int{0, 1, 20, 60, 150, 300, 5000}).Draw(t, "bytes")),
			uint64(rapid.SampledFrom([]int{0, 0, 5, 30, 900}).Draw(t, "inodes")),
		}
		got := Ask(s, need, noon)
		want, most := oracle{s, noon}.ask(need)
		if diff := cmp.Diff(want, summarize(got.Plan), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-oracle +Ask:\n%s", diff)
		}
		var gone []string
		for _, d := range got.Remove {
			gone = append(gone, d.ImageID)
		}
		bytes, inodes, _, _ := oracle{s, noon}.freed(gone)
		if got.Most != most || got.Frees != (Size{bytes, inodes}) {
			t.Fatalf("frees %v of at most %v; the oracle: %d and %d of %v", got.Frees, got.Most, bytes, inodes, most)
		}
		reached := bytes >= need.Bytes && inodes >= need.Inodes
		if blocked := s.Blocked != "" || len(s.Policy.Validate()) > 0; !blocked && reached == (got.Hold != nil) {
			t.Fatalf("frees %v of %v, hold %v", got.Frees, need, got.Hold)
		}
	})
}

// Where nothing is of the maximum age and no hold is on, to ask for what Decide needs is to
// get Decide's plan.
func TestAskIsDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSnapshot(t)
		s.Hold, s.Policy.MaximumAge = nil, 0
		plan := Decide(s, noon)
		asked := Ask(s, Size{plan.NeedBytes, plan.NeedInodes}, noon)
		var want, got [][]Decision
		for _, p := range []struct {
			plan Plan
			into *[][]Decision
		}{{plan, &want}, {asked.Plan, &got}} {
			for _, list := range [][]Decision{p.plan.Remove, p.plan.Keep} {
				list = slices.Clone(list)
				for i := range list {
					list[i].Detail = ""
					if list[i].Reason == RemovedThreshold || list[i].Reason == RemovedAsked {
						list[i].Reason = ""
					}
				}
				*p.into = append(*p.into, list)
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-Decide +Ask:\n%s", diff)
		}
		if diff := cmp.Diff(plan.Hold, asked.Hold); diff != "" {
			t.Fatalf("hold, -Decide +Ask:\n%s", diff)
		}
	})
}

func TestDownTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Uint64Range(1, math.MaxUint64).Draw(t, "capacity")
		d := Disk{CapacityBytes: capacity, AvailableBytes: rapid.Uint64Range(0, capacity).Draw(t, "available")}
		d.Inodes, d.InodesAvailable = d.CapacityBytes, d.AvailableBytes
		percent := rapid.IntRange(0, 100).Draw(t, "percent")
		need := d.BytesTo(percent)
		if need != d.InodesTo(percent) {
			t.Fatalf("%d bytes, but %d inodes", need, d.InodesTo(percent))
		}
		within := func(available uint64) bool { // used·100 <= percent·capacity
			used := new(big.Int).SetUint64(capacity - available)
			share := new(big.Int).SetUint64(capacity)
			return used.Mul(used, big.NewInt(100)).Cmp(share.Mul(share, big.NewInt(int64(percent)))) <= 0
		}
		if after := d.AvailableBytes + need; !within(after) || need > 0 && within(after-1) {
			t.Fatalf("%d of %d are available: %d more for %d %%", d.AvailableBytes, capacity, need, percent)
		}
	})
	if d := (Disk{}); d.BytesTo(0) != 0 || d.InodesTo(0) != 0 {
		t.Error("a disk that is not known needs nothing")
	}
}

func TestDigest(t *testing.T) {
	plan := func(words ...string) Plan {
		var p Plan
		for i := 0; i < len(words); i += 2 {
			p.Remove = append(p.Remove, Decision{ImageID: words[i], Reason: Reason(words[i+1])})
		}
		return p
	}
	same := plan("a", "asked", "b", "asked")
	digest := same.Digest()
	same.Keep, same.NeedBytes, same.Remove[0].FreesBytes, same.Remove[0].Detail = []Decision{{ImageID: "c"}}, 7, 9, "unused"
	if same.Digest() != digest {
		t.Error("what stays, or what is freed, changes the digest")
	}
	seen := map[string]bool{digest: true}
	for _, other := range []Plan{
		{}, plan("b", "asked", "a", "asked"), plan("a", "asked"), plan("a", "asked", "b", "threshold"),
		plan("aasked", "b", "asked", ""), plan("aaskedb", "asked"), plan("a", "askedb", "asked", ""),
		plan("a", "asked\x00b\x00asked"), plan("a", "asked\x01b\x05asked"),
	} {
		if d := other.Digest(); seen[d] {
			t.Errorf("%+v has the digest of another plan", other.Remove)
		} else {
			seen[d] = true
		}
	}
	// People compare digests of different versions.
	if want := "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; (Plan{}).Digest() != want {
		t.Errorf("no image: %s", Plan{}.Digest())
	}
}
