package image

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tape turns fuzz input into values. At its end it yields zeros.
type tape []byte

func (t *tape) byte() byte {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return b
}

// below yields a number in 0..n-1.
func (t *tape) below(n int) int { return int(t.byte()) % n }

// size yields any 64-bit number, extremes often.
func (t *tape) size() uint64 {
	switch t.below(4) {
	case 0:
		return uint64(t.byte())
	case 1:
		return math.MaxUint64 - uint64(t.byte())
	}
	var raw [8]byte
	for i := range raw {
		raw[i] = t.byte()
	}
	return binary.LittleEndian.Uint64(raw[:])
}

// time yields no time, times around noon, and absurd ones.
func (t *tape) time() time.Time {
	switch t.below(6) {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(int64(t.size()), int64(t.size()))
	}
	return noon.Add(time.Duration(t.below(256)-128) * time.Minute)
}

func (t *tape) ids(nodes int) []NodeID {
	var ids []NodeID
	for range t.below(4) {
		if t.below(30) == 29 {
			ids = append(ids, NodeID(t.size()))
		} else {
			ids = append(ids, NodeID(t.below(nodes+1)))
		}
	}
	return ids
}

func (t *tape) snapshot() Snapshot {
	var s Snapshot
	s.Policy = Policy{HighPercent: 1 + t.below(100), MinimumAge: time.Duration(t.below(4)) * time.Minute, MaximumAge: time.Duration(t.below(3)) * time.Hour}
	s.Policy.LowPercent = t.below(s.Policy.HighPercent)
	switch t.below(8) {
	case 0:
		s.Policy.InodesHighPercent, s.Policy.InodesLowPercent = t.below(256)-100, t.below(256)-100
	case 1:
		s.Policy.MinimumAge, s.Policy.MaximumAge = time.Duration(t.size()), time.Duration(t.size())
	case 2, 3:
		s.Policy.InodesHighPercent, s.Policy.InodesLowPercent = 80, 20
	}
	s.Disk = Disk{t.size(), t.size(), t.size(), t.size()}
	n := t.below(20)
	for range n {
		s.Graph.Nodes = append(s.Graph.Nodes, Node{Kind: NodeKind(t.below(5)), Bytes: t.size(), Inodes: t.size(), Refs: t.ids(n)})
	}
	for range t.below(3) {
		s.Graph.Holders = append(s.Graph.Holders, Holder{Nodes: t.ids(n)})
	}
	for range t.below(12) {
		s.Images = append(s.Images, t.image(n))
	}
	s.ReclaimingBytes, s.ReclaimingInodes = t.below(2) == 1, t.below(2) == 1
	if t.below(2) == 1 {
		s.Hold = &Hold{Since: t.time(), Bytes: t.below(2) == 1, Inodes: t.below(2) == 1, AvailableBytes: t.size(), InodesAvailable: t.size()}
		for range t.below(4) {
			s.Hold.Images = append(s.Hold.Images, fmt.Sprint(t.below(9)))
			s.Hold.Unread = append(s.Hold.Unread, fmt.Sprint(t.below(30)))
		}
	}
	if t.below(20) == 19 {
		s.Blocked = "fuzz"
	}
	if t.below(4) == 3 {
		s.Pods = Pods{Unknown: true, Answered: t.time()}
	}
	return s
}

func (t *tape) image(nodes int) Image {
	img := Image{
		ID:       fmt.Sprint(t.below(14)), // sometimes twice
		LastUsed: t.time(), Arrived: t.time(), Observed: t.time(),
		Roots: t.ids(nodes),
	}
	switch t.below(10) {
	case 0:
		img.ID = ""
	case 1:
		img.UsedBy = []string{""}
	case 2:
		img.Wanted = []string{"a", ""}
	case 3:
		img.Pinned = true
	case 4:
		img.Sandbox = true
	case 5:
		img.Keep = "**"
	case 6:
		img.Unread = "s"
	}
	return img
}

func FuzzDecide(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{80, 1, 0, 75, 4, 2, 1, 0, 0, 10, 0, 3, 9})
	for seed := range byte(8) { // long enough to fill a snapshot
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(i*int(2*seed+3)) ^ byte(i>>3)*seed
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := tape(data)
		s := in.snapshot()
		now := in.time()
		plan := Decide(s, now)
		if len(s.Policy.Validate()) > 0 && len(plan.Remove) > 0 {
			t.Fatalf("removes %+v by a policy that makes no sense", plan.Remove)
		}
		if err := sane(s, plan, now); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plan, Decide(s, now)); diff != "" {
			t.Fatalf("the same snapshot gives another plan:\n%s", diff)
		}
	})
}
