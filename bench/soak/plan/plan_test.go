package plan

import (
	"fmt"
	"strings"
	"testing"
)

// everything that a seed makes up, in words.
func everything(seed uint64) string {
	var b strings.Builder
	g := New(seed, 20)
	for _, op := range g.Population(500) {
		fmt.Fprintln(&b, op)
	}
	for range 5000 {
		fmt.Fprintln(&b, g.Next())
	}
	for i, kinds := range [][]string{Outages, Conditions} {
		f := NewFaults(seed, uint64(i), 100, kinds)
		for range 100 {
			fmt.Fprintln(&b, f.Next())
		}
	}
	return b.String()
}

func TestOneSeedReplays(t *testing.T) {
	first, second := everything(7), everything(7)
	if first != second {
		t.Error("the same seed gives two plans")
	}
	if first == everything(8) {
		t.Error("two seeds give one plan")
	}
}

// There is something of everything, owners come first, and the cluster does not run empty.
func TestPlan(t *testing.T) {
	g := New(3, 50)
	made := map[*Slot]bool{}
	count := map[string]int{}
	check := func(op Op) {
		count[string(op.Verb)]++
		for _, r := range op.Owners {
			if !made[r.Owner] {
				t.Fatalf("%s: its owner was never made", op)
			}
			if r.Owner.Namespace != "" && r.Owner.Namespace != op.Slot.Namespace {
				t.Fatalf("%s: an owner in another namespace", op)
			}
			count["wrong "+r.Wrong]++
		}
		if op.Verb == Create {
			made[op.Slot] = true
		}
		if op.Verb == Delete {
			count["policy "+op.Policy]++
			if op.Slot.Kind.Kind == "Job" && op.Policy == "" {
				count["job"]++
			}
		}
	}
	const objects, ops = 20000, 10000
	for _, op := range g.Population(objects) {
		check(op)
	}
	for range ops {
		check(g.Next())
	}
	for what, least := range map[string]int{"create": 4000, "own": 1000, "delete": 2000, "lift": 50, "finish": 200, "define": Late, "create namespace": 20, "delete namespace": 20,
		"policy ": 200, "policy Background": 500, "policy Foreground": 500, "policy Orphan": 300, "job": 60, "wrong version": 20, "wrong kind": 20} {
		if count[what] < least {
			t.Errorf("%d of %q, want %d", count[what], what, least)
		}
	}
	if left := len(g.alive); left < objects/3 {
		t.Errorf("%d objects of %d are left after %d operations", left, objects, ops)
	}
}
