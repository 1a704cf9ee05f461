package pods

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIndex holds it against a map.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, model := newIndex(), map[uid]*pod{}
		some := rapid.Map(rapid.IntRange(0, 99), func(i int) uid { return uid{15: byte(i)} })
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for i := range rapid.IntRange(1, 30).Draw(t, "n") {
					if u := (uid{14: 1, 15: byte(i)}); model[u] == nil {
						p := &pod{uid: u}
						x.add(p)
						model[u] = p
					}
				}
				if u := some.Draw(t, "uid"); model[u] == nil {
					p := &pod{uid: u}
					x.add(p)
					model[u] = p
				}
			},
			"remove": func(t *rapid.T) {
				n := rapid.IntRange(1, 40).Draw(t, "n")
				for u, p := range model {
					if n--; n < 0 {
						break
					}
					x.remove(p)
					delete(model, u)
				}
			},
			"": func(t *rapid.T) {
				seen := 0
				for p := range x.all {
					seen++
					if model[p.uid] != p {
						t.Fatalf("%v is not there", p.uid)
					}
				}
				for u, p := range model {
					if x.get(u) != p {
						t.Fatalf("%v is not found", u)
					}
				}
				if u := some.Draw(t, "another"); x.get(u) != model[u] {
					t.Fatalf("%v", u)
				}
				if seen != len(model) || x.used != seen {
					t.Fatalf("%d, %d, not %d", seen, x.used, len(model))
				}
			},
		})
	})
}
