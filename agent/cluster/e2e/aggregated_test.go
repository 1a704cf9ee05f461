package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/extension"
	"github.com/ebb-agent/ebb/tools/peers"
)

const thingType = "things.ext.example.com"

// Another API server misbehaves in each way that real ones do. Nothing of a living owner
// goes, no other type suffers, and what is to go goes once the server is sound.
func TestAggregated(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.define(t, "v1")
	e := newExtension(t, b)
	for _, test := range []struct {
		name string
		run  func(*foreign)
	}{
		{"every error is NotFound", testNotFound},
		{"reads are behind the watch", testLowerVersions},
		{"versions go back", testVersionsGoBack},
		{"a list never ends", testEndlessList},
		{"no UID, no version", testSkipped},
		{"each watch ends after its bookmark", testEndsAfterBookmark},
		{"restarts", testRestarts},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &foreign{scenario: b.scenario(t), e: e, b: b, t: t}
			test.run(f)
			e.Clear(e.Faults())
			f.r.stop()
		})
	}
}

// foreign is a scenario with another API server.
type foreign struct {
	*scenario
	e *extension.Server
	b *fixture
	r *running
	t *testing.T
}

// start a controller with these faults in force.
func (f *foreign) start(faults extension.Fault) {
	f.t.Helper()
	f.e.Set(faults)
	f.r = f.b.start(f.t, f.b.kubeconfig, soon)
	f.r.awaitState(f.t, thingType, "synced")
}

// awaitReason waits until an object is kept for a reason.
func (f *foreign) awaitReason(what string, want gc.Reason) {
	f.t.Helper()
	kind, name, _ := strings.Cut(what, "/")
	o := gc.Coordinates{APIVersion: kinds[kind].apiVersion, Kind: kinds[kind].kind, Namespace: f.namespace, Name: name, UID: f.uids[what]}
	await.Holds(f.t, patience, fmt.Sprintf("%s to be kept: %s", what, want), func(ctx context.Context) error {
		x, err := f.r.Explain(ctx, o)
		if err == nil && x.Reason != want {
			err = fmt.Errorf("it is %s %+v", x.Reason, x.Owners)
		}
		return err
	})
}

// asked counts requests to the other server.
func (f *foreign) asked(what string) (n int) {
	for _, a := range f.e.Asked() {
		if a == what {
			n++
		}
	}
	return n
}

// awaitAsked gives what waits until there are so many more of a request than now.
func (f *foreign) awaitAsked(what string, more int) (wait func()) {
	before := f.asked(what)
	return func() {
		f.t.Helper()
		await.Holds(f.t, patience, fmt.Sprintf("%d more of %s", more, what), func(context.Context) error {
			if n := f.asked(what) - before; n < more {
				return fmt.Errorf("%d", n)
			}
			return nil
		})
	}
}

// untroubled checks that no other type was touched.
func (f *foreign) untroubled() {
	f.t.Helper()
	if n := f.r.metric(f.t, "etcd_restores_total"); n != 0 {
		f.t.Errorf("%v restores", n)
	}
	types, err := f.r.Types(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range types {
		if s.Type != thingType && s.State == "unreadable" {
			f.t.Errorf("%s is unreadable: %s", s.Type, s.Why)
		}
	}
	f.b.canary(f.t)
}

// Storage that maps every error to NotFound, and lists nothing: dependents of a living
// owner stay. Its end is believed after two NotFounds with a witness.
func testNotFound(f *foreign) {
	f.make("thing/o", "thing/w", "cm/a < thing/o", "pod/b < !thing/o")
	f.start(0)
	f.awaitReason("cm/a", cascade.KeptSolidOwner)
	f.e.Set(extension.NotFound | extension.EmptyLists)
	f.e.Cut()
	f.awaitReason("cm/a", cascade.KeptNoWitness)
	f.awaitAsked("GET things "+f.namespace+"/o", 3)() // more than a second apart
	if types, err := f.r.Types(f.t.Context()); err != nil || !slices.ContainsFunc(types, func(s cluster.TypeStatus) bool { return s.Type == thingType && s.Alone == 1 }) {
		f.t.Errorf("types do not show that an owner has no witness: %+v, %v", types, err)
	}
	f.want("cm/a=1", "pod/b=1")
	f.untroubled()
	f.e.Clear(extension.NotFound | extension.EmptyLists)
	f.e.Cut()
	f.awaitReason("cm/a", cascade.KeptSolidOwner)
	f.remove("thing/o", background)
	f.want("-cm/a", "-pod/b", "thing/w")
	if f.asked("GET things "+f.namespace+"/w") == 0 {
		f.t.Error("no witness was read")
	}
}

// The read just before a deletion counts, whatever its version: the object is deleted only
// if the read agrees with the watch.
func testLowerVersions(f *foreign) {
	f.make("cm/o", "thing/x < cm/o", "thing/y < cm/o")
	f.start(extension.LowerVersions | extension.NoPreconditions)
	f.e.ChangeUnseen("things", f.namespace, "x", noOwners)
	f.remove("cm/o", background)
	f.want("-thing/y")
	f.awaitReason("thing/x", cascade.KeptDisputed)
	f.want("thing/x=0")
	f.untroubled()
}

// A list's version is the greatest of its items': it goes back when the newest one is
// deleted. No etcd was restored.
func testVersionsGoBack(f *foreign) {
	f.make("thing/p", "cm/c < thing/p", "thing/q")
	f.start(extension.ListVersionOfItems)
	f.remove("thing/q", background)
	for range 3 {
		watched := f.awaitAsked("WATCH things", 1)
		f.e.Cut()
		watched()
	}
	f.want("cm/c=1")
	f.untroubled()
}

// A server takes sendInitialEvents, never marks the end and is busy (kubernetes issue
// 140890): its type is listed page by page, and holds nobody.
func testEndlessList(f *foreign) {
	f.make("thing/p", "cm/c < thing/p", "cm/o", "thing/d < !cm/o", "cm/q", "cm/r < cm/q")
	f.start(extension.EndlessList)
	f.remove("cm/o", foreground)
	f.remove("cm/q", orphan)
	f.want("-thing/d", "-cm/o", "-cm/q", "cm/r=0", "cm/c=1")
	f.untroubled()
}

// One object without a UID, and a list without a version: the others are followed.
func testSkipped(f *foreign) {
	f.make("thing/p", "cm/c < thing/p", "cm/o", "thing/d < cm/o")
	f.start(extension.NoUID | extension.NoListVersion)
	f.remove("cm/o", background)
	f.want("-thing/d", "cm/c=1")
	f.make("cm/n", "thing/late < cm/n") // made while it is watched
	f.remove("cm/n", background)
	f.want("-thing/late")
	if n := f.r.metric(f.t, "objects_skipped_total"); n < 1 || !strings.Contains(f.r.log.text(), extension.WithoutUID) {
		f.t.Errorf("%v skipped, or not logged", n)
	}
	f.untroubled()
}

// Each watch ends right after its bookmark (kubernetes issue 134837): it is asked less and
// less often, and the type can be read all the time.
func testEndsAfterBookmark(f *foreign) {
	f.make("thing/p", "cm/c < thing/p", "thing/q", "cm/d < thing/q", "cm/o", "thing/e < cm/o")
	f.start(extension.EndsAfterBookmark)
	begun, lists := time.Now(), f.asked("LIST things")
	f.awaitAsked("WATCH things", 6)()
	// Three are quick; the pauses behind the others double from an eighth of a second on, at least.
	if took := time.Since(begun); took < 300*time.Millisecond {
		f.t.Errorf("six watches within %v", took)
	}
	if n := f.asked("LIST things") - lists; n > 12 {
		f.t.Errorf("%d lists", n)
	}
	f.remove("thing/q", background)
	f.remove("cm/o", background)
	f.want("-cm/d", "-thing/e", "cm/c=1")
	if strings.Contains(f.r.log.text(), "type cannot be read") {
		f.t.Error("the type became unreadable")
	}
	f.untroubled()
}

// Counters begin at 1, and objects have gone meanwhile.
func testRestarts(f *foreign) {
	f.make("thing/p", "cm/c < thing/p", "thing/q", "cm/d < thing/q")
	f.start(0)
	f.e.RemoveUnseen("things", f.namespace, "q")
	f.e.Restart()
	f.want("-cm/d", "cm/c=1")
	f.untroubled()
	if err := f.e.Unregister(f.t.Context(), f.b.ControlPlane); err != nil {
		f.t.Fatal(err)
	}
	f.e.Cut() // a watch that runs would go on
	await.Holds(f.t, patience, "the type to go", func(ctx context.Context) error {
		if state := f.r.state(ctx, thingType); state != "" {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	f.want("cm/c=1") // not served is not absent
}
