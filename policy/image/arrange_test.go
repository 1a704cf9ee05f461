package image

import (
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// Each node is there once, with what it leads to, and the results for images are the same.
func TestArrange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genStore(t)
		nodes, same := copied(s.Graph.Nodes), copied(s.Graph.Nodes)
		place := Arrange(nodes)
		if all := slices.Sorted(slices.Values(place)); len(nodes) != len(s.Graph.Nodes) || len(slices.Compact(all)) != len(nodes) {
			t.Fatalf("%d nodes at %v", len(nodes), place)
		}
		for _, n := range same {
			slices.Reverse(n.Refs)
		}
		if Arrange(same); !gocmp.Equal(nodes, same) {
			t.Fatal("the order of references matters")
		}
		after := rearranged(s, nodes, place)
		for id, n := range s.Graph.Nodes {
			n.Refs = moved(n.Refs, place)
			got := nodes[place[id]]
			got.Refs = slices.Clone(got.Refs)
			slices.Sort(n.Refs)
			slices.Sort(got.Refs)
			if diff := gocmp.Diff(n, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("node %d, -before +after:\n%s", id, diff)
			}
		}
		if diff := gocmp.Diff(Account(s.Graph, s.Images), Account(after.Graph, after.Images), cmpopts.IgnoreFields(Entry{}, "Nodes")); diff != "" {
			t.Fatalf("-before +after:\n%s", diff)
		}
		if diff := gocmp.Diff(Decide(s, noon), Decide(after, noon)); diff != "" {
			t.Fatalf("-before +after:\n%s", diff)
		}
	})
}

func copied(nodes []Node) []Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].Refs = slices.Clone(nodes[i].Refs)
	}
	return nodes
}

// rearranged is a snapshot whose nodes were moved.
func rearranged(s Snapshot, nodes []Node, place []NodeID) Snapshot {
	s.Graph.Nodes, s.Images = nodes, slices.Clone(s.Images)
	s.Graph.Holders, s.Graph.Expired = slices.Clone(s.Graph.Holders), slices.Clone(s.Graph.Expired)
	for i := range s.Images {
		s.Images[i].Roots = moved(s.Images[i].Roots, place)
	}
	for _, list := range [][]Holder{s.Graph.Holders, s.Graph.Expired} {
		for i := range list {
			list[i].Nodes = moved(list[i].Nodes, place)
		}
	}
	return s
}

// moved is where nodes are now; those that never were stay so.
func moved(ids, place []NodeID) (now []NodeID) {
	for _, id := range ids {
		if int(id) < len(place) {
			id = place[id]
		}
		now = append(now, id)
	}
	return now
}

// What an image leads to comes right behind it, and what two share is with the first.
func TestArrangeByImage(t *testing.T) {
	b := &graphOf{}
	first, second := b.record(), b.record()
	base, _ := b.snapshot(1), b.snapshot(2)
	top, other := b.snapshot(3, base), b.snapshot(4, base)
	b.Nodes[first].Refs, b.Nodes[second].Refs = []NodeID{top}, []NodeID{other}
	place := Arrange(b.Nodes)
	if want := []NodeID{0, 3, 2, 5, 1, 4}; !slices.Equal(place, want) {
		t.Errorf("%v, want %v", place, want)
	}
}
