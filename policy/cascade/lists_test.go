package cascade

import (
	"fmt"
	"testing"

	"github.com/ebb-agent/ebb/policy/gc"
)

// An owner went while nobody watched, and hundreds of lists broke off until one named all
// that there is: it is missing all the same.
func TestBrokenLists(t *testing.T) {
	for _, broken := range []int{0, 1, 255, 256, 511, 1 << 16} {
		t.Run(fmt.Sprint(broken), func(t *testing.T) {
			c := New(Config{})
			set := gc.Object{APIVersion: "apps/v1", Kind: "Set", Namespace: "a", Name: "s", UID: "s", ResourceVersion: "1"}
			pod := gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "p", UID: "p", ResourceVersion: "2",
				Owners: []gc.Reference{{APIVersion: "apps/v1", Kind: "Set", Name: "s", UID: "s"}}}
			for _, o := range []gc.Object{set, pod} {
				c.TypeCame(noon, gc.Type{APIVersion: o.APIVersion, Kind: o.Kind, Resource: o.Kind, Namespaced: true})
				c.Listing(noon, o.APIVersion, o.Kind)
				c.Observe(noon, o)
				c.Synced(noon, o.APIVersion, o.Kind)
			}
			for range broken {
				c.Listing(noon, set.APIVersion, set.Kind)
			}
			c.Listing(noon, set.APIVersion, set.Kind)
			c.Synced(noon, set.APIVersion, set.Kind)
			if actions := c.Ready(noon, 10); len(actions) != 1 || actions[0].Verb != gc.Verify || actions[0].Object.UID != "s" {
				t.Errorf("asked for %+v", actions)
			}
		})
	}
}

// A list names what there is. What was answered while it was on its way, and it does not
// name, is missing.
func TestAnsweredWhileListing(t *testing.T) {
	set := gc.Object{APIVersion: "apps/v1", Kind: "Set", Namespace: "a", Name: "s", UID: "s", ResourceVersion: "1"}
	pod := gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "p", UID: "p", ResourceVersion: "2",
		Owners: []gc.Reference{{APIVersion: "apps/v1", Kind: "Set", Name: "s", UID: "s"}}}
	for _, late := range []bool{false, true} {
		c := New(Config{})
		for _, o := range []gc.Object{set, pod} {
			c.TypeCame(noon, gc.Type{APIVersion: o.APIVersion, Kind: o.Kind, Resource: o.Kind, Namespaced: true})
			c.Synced(noon, o.APIVersion, o.Kind)
		}
		c.Observe(noon, pod)
		asked := c.Ready(noon, 10)
		if len(asked) != 1 || asked[0].Verb != gc.Verify {
			t.Fatalf("asked for %+v", asked)
		}
		c.Listing(noon, set.APIVersion, set.Kind)
		if !late {
			c.Answered(noon, noon, asked[0].ID, gc.Answer{State: gc.Exists, Object: set})
		}
		c.Synced(noon, set.APIVersion, set.Kind)
		if late {
			c.Answered(noon, noon, asked[0].ID, gc.Answer{State: gc.Exists, Object: set})
		}
		if again := c.Ready(noon, 10); len(again) != 1 || again[0].Verb != gc.Verify {
			t.Errorf("late %v: asked for %+v", late, again)
		}
	}
}
