package cascade

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// Whatever comes and goes: the index says what a map says, in one part as in all.
func TestUIDIndex(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := New(Config{})
		naive := map[uid]index{}
		var uids []uid
		for i := 0; len(uids) < 3000; i++ {
			var u uid
			binary.LittleEndian.PutUint64(u[8:], uint64(i))
			if p, _ := c.uuids.lookup(u); seed%2 == 0 || p == &c.uuids.parts[7] {
				uids = append(uids, u)
			}
		}
		add := func(u uid) {
			i := c.place()
			c.at(i).uid = u
			c.setFirst(u, i)
			naive[u] = i
		}
		for round := range 6 {
			// Rounds that fill and rounds that empty, so that parts grow and shrink.
			for range 5000 {
				u := uids[r.IntN(len(uids))]
				if there := naive[u] != 0; r.IntN(8) < 7 == (round%2 == 0) {
					add(u) // in place of another one with this UID, if there is one
				} else if c.setFirst(u, 0); there {
					delete(naive, u)
				}
			}
			used := 0
			for _, u := range uids {
				if got := c.first(u); got != naive[u] {
					t.Fatalf("seed %d, round %d: %d, want %d", seed, round, got, naive[u])
				}
			}
			for p := range c.uuids.parts {
				part := &c.uuids.parts[p]
				if used += part.used; part.used > 0 && part.used == len(part.slots) {
					t.Fatalf("a part with no free slot: a search would not end")
				}
			}
			if used != len(naive) {
				t.Fatalf("%d used, want %d", used, len(naive))
			}
		}
		for u := range naive {
			c.setFirst(u, 0)
		}
		for p := range c.uuids.parts {
			if len(c.uuids.parts[p].slots) > 0 {
				t.Fatal("an index of nothing that keeps memory")
			}
		}
	}
}
