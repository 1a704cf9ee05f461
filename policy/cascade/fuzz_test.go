package cascade

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// FuzzObserve feeds what no API server would send: the graph's books stay in
// order, nothing is deleted that was shown with an owner that was shown, and what
// is forgotten leaves nothing behind.
func FuzzObserve(f *testing.F) {
	f.Add([]byte("\x00\x01a\x02b\x03c"), "v1 Pod uid-1", true)
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 0x80, 0x91, 0xa2, 0xb3, 0xff, 0, 0, 9, 9, 17, 33, 65, 129}, "", false)
	f.Add([]byte(strings.Repeat("\x05\x11\x33\x07", 60)), "00000000-0000-0000-0000-000000000000", true)
	f.Fuzz(func(t *testing.T, script []byte, word string, known bool) {
		c := New(Config{Tombstones: 4})
		words := []string{"", "a", word, "00000000-0000-0000-0000-000000000000", "0123ABCD-0000-0000-0000-000000000000"}
		if known {
			c.TypeCame(noon, gc.Type{APIVersion: "v1", Kind: "a", Resource: "as", Namespaced: true})
			c.TypeCame(noon, gc.Type{APIVersion: "v1", Kind: word, Resource: "bs"})
		}
		now := noon
		next := func() byte {
			if len(script) == 0 {
				return 0
			}
			b := script[0]
			script = script[1:]
			return b
		}
		pick := func() string { return words[int(next())%len(words)] }
		for len(script) > 0 {
			o := gc.Object{APIVersion: "v1", Kind: pick(), Namespace: pick(), Name: pick(), UID: pick()}
			if next()%8 == 0 {
				o.ResourceVersion = pick()
			} else {
				o.ResourceVersion = string('1' + rune(next()%9))
			}
			for range next() % 5 {
				o.Owners = append(o.Owners, gc.Reference{APIVersion: "v1", Kind: pick(), Name: pick(), UID: pick(), Block: next()%2 == 0})
			}
			o.Finalizers = [][]string{nil, {gc.OrphanFinalizer}, {word, gc.ForegroundFinalizer}}[next()%3]
			o.Terminating = next()%3 == 0
			fuzzStep(t, c, next(), now, o)
			now = now.Add(time.Duration(next()) * time.Millisecond)
			if err := c.consistent(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func fuzzStep(t *testing.T, c *Collector, op byte, now time.Time, o gc.Object) {
	switch op % 12 {
	default:
		c.Observe(now, o)
		c.Explain(gc.Coordinates{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID})
	case 0:
		c.Forget(now, o)
	case 1:
		c.TypeCame(now, gc.Type{APIVersion: "v1", Kind: o.Kind, Namespaced: o.Terminating})
	case 2:
		c.TypeWent(now, "v1", o.Kind)
	case 3:
		c.Listing(now, "v1", o.Kind)
		c.Synced(now, "v1", o.Kind)
	case 4:
		c.Restored(now)
	case 5:
		for _, a := range c.Ready(now, 3) {
			if a.Verb == gc.Delete && a.Object.UID == "" {
				t.Fatalf("would delete whatever bears the name: %+v", a)
			}
			switch a.Verb {
			case gc.Verify, gc.Read:
				c.Answered(now, now, a.ID, gc.Answer{State: gc.State(len(o.Name) % 3), Object: o})
			case gc.Record:
				c.Finished(now, a.ID, gc.Done)
			default:
				c.Finished(now, a.ID, gc.Result(len(o.UID)%5))
			}
		}
	}
}

// An object with as many owners as an API server takes, and again without.
func TestManyOwners(t *testing.T) {
	c := New(Config{})
	o := gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "p", UID: "p", ResourceVersion: "1"}
	for i := range 500 {
		id := strings.Repeat("x", i+1)
		o.Owners = append(o.Owners, gc.Reference{APIVersion: "v1", Kind: "Pod", Name: id, UID: id, Block: true})
	}
	o.Owners = append(o.Owners, o.Owners[:250]...) // some twice
	c.Observe(noon, o)
	if err := c.consistent(); err != nil || c.Len() != 501 {
		t.Fatal(c.Len(), err)
	}
	slices.Reverse(o.Owners)
	o.ResourceVersion = "2"
	c.Observe(noon, o)
	if err := c.consistent(); err != nil || c.Len() != 501 {
		t.Fatal(c.Len(), err)
	}
	o.Owners, o.ResourceVersion = nil, "3"
	c.Observe(noon, o)
	if err := c.consistent(); err != nil || c.Len() != 1 {
		t.Fatal(c.Len(), err)
	}
	c.Forget(noon, o)
	c.dropTombstones(func(uint32) bool { return true }) // a tombstone knows its kind
	if c.Len() != 0 || len(c.kinds.ids) != 0 || len(c.namespaces.ids) != 0 || len(c.texts) != 0 || len(c.work) != 0 {
		t.Fatalf("left behind: %d nodes, %v %v %v", c.Len(), c.kinds.ids, c.namespaces.ids, c.texts)
	}
}
