package cascade_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
)

var unbounded = preview.Limits{Nodes: 1 << 20, Alike: 1 << 20, Depth: 1 << 20}

// What a preview predicts is what then happens, in any world: with the collector behind
// watches and lists, and with the finalizers of others served afterwards.
func TestPreviewComesTrue(t *testing.T) {
	worlds := 8000
	if n, err := strconv.Atoi(os.Getenv("EBB_WORLDS")); err == nil {
		worlds = n
	}
	met := make(map[string]int)
	for seed := range uint64(worlds) {
		s, err := cascade.Simulate(seed, 60)
		if err != nil {
			t.Fatalf("world %d: %v", seed, err)
		}
		before := s.Objects()
		if len(before) == 0 || s.Journal() > 0 { // a preview does not know the journal
			continue
		}
		met["a world"]++
		target := before[s.Roll(len(before))]
		policy := []gc.Policy{gc.Background, gc.Foreground, gc.Orphan}[s.Roll(3)]
		p, err := preview.Of(preview.World{Types: s.Types(), Objects: before}, coordinates(target), policy, unbounded)
		if err != nil {
			t.Fatalf("world %d: %v", seed, err)
		}
		if p.Pending > 0 {
			t.Fatalf("world %d is at rest, and %d objects are reported to change", seed, p.Pending)
		}
		nodes := make(map[string]*preview.Node)
		flatten(p.Root, nodes)
		for _, n := range p.Released {
			flatten(n, nodes)
		}
		story := fmt.Sprintf("world %d, delete %s %s/%s %s %s", seed, target.Kind, target.Namespace, target.Name, target.UID, policy)
		s.Delete(target.UID, policy)
		if err := s.Rest(); err != nil {
			t.Fatalf("%s: %v", story, err)
		}
		for _, o := range before {
			problem := compareFirst(o, find(s.Objects(), o.UID), nodes[o.UID], o.UID == target.UID)
			switch {
			case problem != "" && racy(before, nodes, o, nil):
				met["a race"]++
			case problem != "":
				t.Errorf("%s: %s %s/%s %s: %s", story, o.Kind, o.Namespace, o.Name, o.UID, problem)
			}
		}
		for served := true; served; {
			served = false
			for uid := range nodes {
				served = terminating(s, uid) && s.Serve(uid) || served
			}
			if err := s.Rest(); err != nil {
				t.Fatalf("%s: %v", story, err)
			}
		}
		for _, o := range before {
			n := nodes[o.UID]
			if n == nil {
				continue
			}
			met[fmt.Sprintf("%s, then %s", n.Outcome, n.Then)]++
			last := n.Outcome
			if n.Then != "" {
				last = n.Then
			}
			switch gone := find(s.Objects(), o.UID) == nil; {
			case gone == (last == preview.Deleted):
			case racy(before, nodes, o, nil):
				met["a race"]++ // and what never goes holds the one, not the other
			default:
				t.Errorf("%s: %s %s: gone in the end: %v, preview: %s, then %q", story, o.Kind, o.Name, gone, n.Outcome, n.Then)
			}
		}
		if t.Failed() {
			t.Logf("%+v\n%s", before, strings.Join(s.Story(), "\n"))
			return
		}
	}
	t.Logf("met %v", met)
	if met["a race"] > met["deleted, then "]/20 {
		t.Errorf("%d races", met["a race"])
	}
	for _, outcome := range []string{"deleted, then ", "orphaned, then ", "kept, then ", "waiting, then deleted"} {
		if met[outcome] < 30 {
			t.Errorf("%q only %d times", outcome, met[outcome])
		}
	}
}

func terminating(s cascade.Simulated, uid string) bool {
	o := find(s.Objects(), uid)
	return o != nil && o.Terminating
}

func coordinates(o gc.Object) gc.Coordinates {
	return gc.Coordinates{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

func flatten(n *preview.Node, into map[string]*preview.Node) {
	if into[n.UID] == nil || into[n.UID].Again {
		into[n.UID] = n
	}
	for _, d := range n.Dependents {
		flatten(d, into)
	}
}

func find(objects []gc.Object, uid string) *gc.Object {
	i := slices.IndexFunc(objects, func(o gc.Object) bool { return o.UID == uid })
	if i < 0 {
		return nil
	}
	return &objects[i]
}

// racy reports whether an object, or an owner of it, has an owner that is deleted
// foreground and is not held by it. Whether the owner still waits when its
// dependent's turn comes is a race between requests of the collector: then the
// dependent goes at once or with its owner, foreground or background.
func racy(before []gc.Object, nodes map[string]*preview.Node, o gc.Object, below []string) bool {
	for _, r := range o.Owners {
		n, owner := nodes[r.UID], find(before, r.UID)
		if n == nil || owner == nil || slices.Contains(below, r.UID) {
			continue
		}
		if !r.Block && n.Policy == gc.Foreground {
			return true
		}
		if racy(before, nodes, *owner, append(below, o.UID)) {
			return true
		}
	}
	return false
}

// compareFirst compares what became of an object with its node, and returns how it differs
// from the prediction.
func compareFirst(was gc.Object, is *gc.Object, n *preview.Node, target bool) string {
	if n == nil {
		if is == nil || is.Terminating != was.Terminating || !slices.Equal(is.Owners, was.Owners) || !slices.Equal(is.Finalizers, was.Finalizers) {
			return fmt.Sprintf("changed, and is not in the preview: %+v, now %+v", was, is)
		}
		return ""
	}
	switch {
	case (is == nil) != (n.Outcome == preview.Deleted):
		return fmt.Sprintf("gone: %v, preview: %s (%s)", is == nil, n.Outcome, n.Reason)
	case is == nil:
	case (is.Terminating && (!was.Terminating || target)) != (n.Outcome == preview.Waiting):
		return fmt.Sprintf("terminating: %v, preview: %s (%s)", is.Terminating, n.Outcome, n.Reason)
	case was.Terminating: // which dangling references go with the others depends on who was seen to go
	case n.Then == "" && len(was.Owners)-len(is.Owners) != len(n.Removed):
		return fmt.Sprintf("%d references removed, preview: %v", len(was.Owners)-len(is.Owners), n.Removed)
	}
	return ""
}
