package gc

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

func FuzzUID(f *testing.F) {
	f.Add("0123abcd-4567-49ef-0123-456789abcdef")
	f.Add("0123ABCD-4567-49ef-0123-456789abcdef")
	f.Add("0123abcd-4567-09ef-0123-456789abcdef") // of no version
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		u := UIDOf(s)
		switch {
		case u.Exact() && u.String() != s:
			t.Fatalf("%q becomes %q", s, u)
		case u == (UID{}) && s != "":
			t.Fatalf("%q has the UID of the empty string", s)
		case !u.Exact() && UIDOf(u.String()) == u:
			t.Fatalf("the hash of %q is a UID", s)
		}
	})
}

func TestUIDOf(t *testing.T) {
	for s, exact := range map[string]bool{
		"9c2a1f56-0000-4000-8000-000000000000": true,
		"9C2A1F56-0000-4000-8000-000000000000": false,
		"9c2a1f56-0000-0000-8000-000000000000": false,
		"9c2a1f56-0000-4000-8000-00000000000g": false,
		"9c2a1f56-0000-4000-8000_000000000000": false,
		"x":                                    false,
		"":                                     false,
	} {
		if u := UIDOf(s); u.Exact() != exact {
			t.Errorf("%q: exact is %v", s, u.Exact())
		}
	}
}

// Whatever comes and goes: the index has what a map has, in one part as in all.
func TestUIDIndex(t *testing.T) {
	type value struct{ uid UID }
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		x, naive := NewUIDIndex(func(v *value) UID { return v.uid }), map[UID]*value{}
		var uids []UID
		for i := 0; len(uids) < 3000; i++ {
			var u UID
			binary.LittleEndian.PutUint64(u[8:], uint64(i))
			if p, _ := x.lookup(u); seed%2 == 0 || p == &x.parts[7] {
				uids = append(uids, u)
			}
		}
		for round := range 6 {
			// Rounds that fill and rounds that empty, so that parts grow and shrink.
			for range 5000 {
				u := uids[r.IntN(len(uids))]
				if r.IntN(8) < 7 == (round%2 == 0) {
					v := &value{u} // in place of another one with this UID, if there is one
					x.Set(u, v)
					naive[u] = v
				} else {
					x.Set(u, nil)
					delete(naive, u)
				}
			}
			for _, u := range uids {
				if got := x.Get(u); got != naive[u] {
					t.Fatalf("seed %d, round %d: %v, want %v", seed, round, got, naive[u])
				}
			}
			seen := 0
			for v := range x.All {
				if seen++; naive[v.uid] != v {
					t.Fatalf("seed %d, round %d: %v is in the index", seed, round, v)
				}
			}
			if x.Len() != len(naive) || seen != len(naive) {
				t.Fatalf("%d in the index, %d seen, want %d", x.Len(), seen, len(naive))
			}
			for p := range x.parts {
				if part := &x.parts[p]; part.used > 0 && part.used == len(part.slots) {
					t.Fatalf("a part with no free slot: a search would not end")
				}
			}
		}
		for u := range naive {
			x.Set(u, nil)
		}
		for p := range x.parts {
			if len(x.parts[p].slots) > 0 {
				t.Fatal("an index of nothing that keeps memory")
			}
		}
	}
}
