package oracle

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// What is left to do is found, and nothing else.
func TestOutstanding(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(world)
		want []string
	}{
		{"nothing", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.put("cm/b", "")
			w.put("cm/c", "< widget9/x")
			w.put("class/d", "< cm/x")
		}, nil},
		{"an owner is gone", func(w world) { w.put("cm/a", "< cm/o") }, []string{"delete"}},
		{"one of two is gone", func(w world) { w.put("cm/p", ""); w.put("cm/a", "< cm/o cm/p") }, []string{"tidy"}},
		{"it is being deleted", func(w world) { w.put("cm/a", "< cm/o + "+Hold+"x terminating") }, nil},
		{"to be orphaned", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.put("cm/a", "< cm/o")
		}, []string{"tidy", "orphan"}},
		{"orphaned, with the reference still there", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.put("cm/a", "< cm/o")
			w.end("cm/o")
		}, []string{"tidy"}},
		{"to be finalized", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.put("cm/a", "< !cm/o")
		}, []string{"delete", "finalize"}},
		{"a namespace", func(w world) { w.put("ns/space", "terminating"); w.put("cm/a", "< cm/o") }, []string{"empty"}},
		{"lost by a restore", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.restore("ns/space", "cm/a")
		}, []string{"delete"}},
		{"orphaned, and lost by a restore", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.put("cm/a", "< cm/o")
			w.restore("ns/space", "cm/a")
		}, nil},
		{"of an owner that is gone, by a version that nobody serves", func(w world) {
			w.put("widget/o", "")
			w.put("cm/a", "< widget9/o=uid-widget/o cm/x")
			w.client("widget/o", "Background")
			w.end("widget/o")
		}, nil},
		{"of one that was orphaned, the same", func(w world) {
			w.put("widget/o", "")
			w.put("cm/p", "")
			w.put("cm/a", "< widget9/o=uid-widget/o cm/p")
			w.client("widget/o", "Orphan")
			w.put("widget/o", "+ orphan terminating")
			w.end("widget/o")
		}, nil},
		{"held by a Pod that nobody ends", func(w world) {
			w.put("cm/p", "")
			w.client("cm/p", "Foreground")
			w.put("cm/p", "+ foregroundDeletion terminating")
			w.put("cm/a", "< !cm/p terminating")
		}, nil},
		{"held by what is held by what may stay", func(w world) {
			w.put("cm/p", "")
			w.put("cm/q", "< !cm/p")
			for _, name := range []string{"cm/p", "cm/q"} {
				w.client(name, "Foreground")
			}
			w.put("cm/p", "+ foregroundDeletion terminating")
			w.put("cm/q", "< !cm/p + foregroundDeletion terminating")
			w.put("cm/a", "< !cm/q terminating")
		}, nil},
		{"held by what may stay", func(w world) {
			w.put("widget/o", "")
			w.put("cm/p", "")
			w.client("cm/p", "Foreground")
			w.put("cm/p", "+ foregroundDeletion terminating")
			w.put("cm/a", "< widget9/o=uid-widget/o !cm/p")
			w.client("widget/o", "Background")
			w.end("widget/o")
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			var got []string
			for _, d := range w.oracle.Outstanding(w.now) {
				got = append(got, d.What)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v", got, c.want)
			}
			if v := w.oracle.Violations(); len(v) > 0 {
				t.Error(fmt.Sprint(v))
			}
		})
	}
}

func TestDecode(t *testing.T) {
	x, err := Decode("/registry/k", []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"s","uid":"u","deletionTimestamp":"2020-01-01T00:00:00Z",
		"finalizers":["orphan"],"annotations":{"soak.example.com/op":"7"},"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"v","blockOwnerDeletion":true}]}}`))
	if err != nil || !x.orphaning() || x.Mark != "7" || x.UID != "u" || x.Owners[0] != (Owner{"v1", "Pod", "o", "v", true}) {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := Decode("/registry/k", []byte("k8s\x00")); err == nil {
		t.Error("protobuf passes for JSON")
	}
}

// What has ended goes at its moment, whoever owns it, and not before.
func TestEnded(t *testing.T) {
	for _, c := range []struct {
		name, from string
		due        string // after the end, as of noon
	}{
		{"a Job", `{"apiVersion":"batch/v1","kind":"Job","spec":{"ttlSecondsAfterFinished":60},"status":{"conditions":[{"type":"Suspended","status":"True"},{"type":"Failed","status":"True","lastTransitionTime":"2026-11-22T12:00:00Z"}]}}`, "1m"},
		{"one without a TTL", `{"apiVersion":"batch/v1","kind":"Job","status":{"conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-11-22T12:00:00Z"}]}}`, ""},
		{"one that runs", `{"apiVersion":"batch/v1","kind":"Job","spec":{"ttlSecondsAfterFinished":60},"status":{"conditions":[{"type":"Failed","status":"False"}]}}`, ""},
		{"a Pod", `{"apiVersion":"v1","kind":"Pod","status":{"phase":"Succeeded","containerStatuses":[{"state":{"terminated":{"finishedAt":"2026-11-22T12:00:00Z"}}}]}}`, PodsAfter.String()},
		{"one that runs", `{"apiVersion":"v1","kind":"Pod","status":{"phase":"Running","containerStatuses":[{"state":{}}]}}`, ""},
	} {
		x, err := Decode("/registry/k", []byte(c.from))
		if err != nil {
			t.Fatal(err)
		}
		want := time.Time{}
		if c.due != "" {
			after, _ := time.ParseDuration(c.due)
			want = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).Add(after)
		}
		if !x.Due.Equal(want) {
			t.Errorf("%s is due at %v", c.name, x.Due)
		}
	}
	for after, want := range map[time.Duration]string{-time.Second: NoOwner, 0: ""} {
		w := newWorld(t)
		x := parse("cm/a", "")
		x.Due = w.now
		w.oracle.Put(11, w.now, x)
		w.pass(after)
		if due := w.oracle.Outstanding(w.now); (len(due) == 1 && due[0].What == "collect") != (want == "") {
			t.Errorf("%v after its moment, outstanding: %v", after, due)
		}
		w.end("cm/a")
		if v := w.oracle.Violations(); len(v) != len(want)/max(1, len(want)) || want != "" && v[0].Kind != want {
			t.Errorf("%v after its moment: %v", after, v)
		}
	}
}
