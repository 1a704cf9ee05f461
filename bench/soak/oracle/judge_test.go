package oracle

import (
	"strings"
	"testing"
	"time"
)

// Each kind of violation is found, and what is next to it and right is none.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(world)
		want string
	}{
		{"an owner lives", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< cm/o"); w.end("cm/a") }, LivingOwner},
		{"one of two lives", func(w world) {
			w.put("cm/o", "")
			w.put("cm/p", "")
			w.put("cm/a", "< cm/o cm/p")
			w.client("cm/o", "Background")
			w.end("cm/o")
			w.end("cm/a")
		}, LivingOwner},
		{"its finalizers hold it", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o + "+Hold+"x")
			w.put("cm/a", "< cm/o + "+Hold+"x terminating")
		}, LivingOwner},
		{"the owner lives in another version", func(w world) { w.put("widget/o", ""); w.put("cm/a", "< widget2/o=uid-widget/o"); w.end("cm/a") }, LivingOwner},
		{"the owner is being deleted, and stays", func(w world) {
			w.put("cm/o", "+ "+Hold+"x")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Background")
			w.put("cm/o", "+ "+Hold+"x terminating")
			w.end("cm/a")
		}, LivingOwner},
		{"the owner is being orphaned", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/a")
		}, LivingOwner},
		{"the owner is gone", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Background")
			w.end("cm/o")
			w.end("cm/a")
		}, ""},
		{"the owner is another", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< cm/o=former"); w.end("cm/a") }, ""},
		{"the owner waits", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< !cm/o")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.end("cm/a")
			w.end("cm/o")
		}, ""},
		{"the owner waited a moment ago", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/a")
		}, ""},
		{"the owner waited long ago", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.pass(time.Minute)
			w.end("cm/a")
		}, LivingOwner},
		{"a client deletes", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< cm/o"); w.client("cm/a", ""); w.end("cm/a") }, ""},
		{"a client was refused", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/a", "")
			w.oracle.Refused("uid-cm/a")
			w.end("cm/a")
		}, LivingOwner},
		{"the namespace goes", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.put("ns/space", "terminating")
			w.end("cm/a")
		}, ""},
		{"no owner", func(w world) { w.put("cm/a", ""); w.end("cm/a") }, NoOwner},
		{"a version that nobody serves", func(w world) { w.put("cm/a", "< widget9/o"); w.end("cm/a") }, UnknownOwner},
		{"such a version, and its UID is gone", func(w world) {
			w.put("widget/o", "")
			w.put("cm/a", "< widget9/o=uid-widget/o")
			w.client("widget/o", "Background")
			w.end("widget/o")
			w.end("cm/a")
		}, ""},
		{"a cluster-scoped dependent", func(w world) { w.put("class/a", "< cm/o"); w.end("class/a") }, NeverCollected},
		{"orphaned", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/o")
			w.pass(time.Hour)
			w.end("cm/a")
		}, OrphanDeleted},
		{"orphaned before it was made", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/o")
			w.put("cm/a", "< cm/o")
			w.end("cm/a")
		}, OrphanDeleted},
		{"orphaned by one, and another is gone", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o cm/p")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/o")
			w.end("cm/a")
		}, ""},
		{"orphaned, and then deleted otherwise", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.client("cm/o", "Background")
			w.end("cm/o")
			w.end("cm/a")
		}, ""},
		{"orphaned, with a second attempt", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.client("cm/o", "Orphan")
			w.end("cm/o")
			w.end("cm/a")
		}, OrphanDeleted},
		{"foreground order", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< !cm/o")
			w.pass(time.Minute)
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.end("cm/o")
		}, ForegroundOrder},
		{"foreground order, held by others", func(w world) {
			w.put("cm/o", "+ "+Hold+"x")
			w.put("cm/a", "< !cm/o + "+Hold+"x")
			w.pass(time.Minute)
			w.put("cm/a", "< !cm/o terminating + "+Hold+"x")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion "+Hold+"x terminating")
			w.put("cm/o", "+ "+Hold+"x terminating")
		}, LivingOwner + ForegroundOrder},
		{"foreground, blocked a moment ago", func(w world) {
			w.put("cm/o", "")
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.put("cm/a", "< !cm/o")
			w.end("cm/o")
		}, ""},
		{"foreground, not blocked", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			w.pass(time.Minute)
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.end("cm/o")
		}, ""},
		{"foreground, blocked in a version that nobody serves", func(w world) {
			w.put("widget/o", "")
			w.put("cm/a", "< !widget9/o=uid-widget/o")
			w.pass(time.Minute)
			w.client("widget/o", "Foreground")
			w.put("widget/o", "+ foregroundDeletion terminating")
			w.end("widget/o")
		}, ""},
		{"foreground, and then deleted otherwise", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< !cm/o")
			w.pass(time.Minute)
			w.client("cm/o", "Foreground")
			w.put("cm/o", "+ foregroundDeletion terminating")
			w.client("cm/o", "Background")
			w.end("cm/o")
		}, ""},
		{"a reference is taken", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< cm/o"); w.put("cm/a", "") }, ReferenceTaken},
		{"a client takes a reference", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< cm/o"); w.put("cm/a", "mark=1") }, ""},
		{"a reference to what is gone is taken", func(w world) { w.put("cm/a", "< cm/o"); w.put("cm/a", "") }, ""},
		{"unblocked", func(w world) { w.put("cm/o", ""); w.put("cm/a", "< !cm/o"); w.put("cm/a", "< cm/o") }, ""},
		{"a finalizer is taken", func(w world) { w.put("cm/a", "+ "+Hold+"x"); w.put("cm/a", "") }, FinalizerTaken},
		{"the last finalizer is taken", func(w world) {
			w.put("cm/a", "+ "+Hold+"x")
			w.client("cm/a", "")
			w.put("cm/a", "+ "+Hold+"x terminating")
			w.end("cm/a")
		}, FinalizerTaken},
		{"a client takes a finalizer", func(w world) {
			w.put("cm/a", "+ "+Hold+"x")
			w.client("cm/a", "")
			w.put("cm/a", "+ "+Hold+"x terminating")
			w.oracle.Lifting("uid-cm/a")
			w.end("cm/a")
		}, ""},
		{"restored: its owner lives again", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			o := w.there["cm/o"]
			w.client("cm/o", "Background")
			w.end("cm/o")
			w.there["cm/o"] = o
			w.restore("ns/space", "cm/o", "cm/a")
			w.end("cm/a")
		}, LivingOwner},
		{"restored: what a client deleted lives again", func(w world) {
			a := w.put("cm/a", "")
			w.client("cm/a", "")
			w.end("cm/a")
			w.there["cm/a"] = a
			w.restore("ns/space", "cm/a")
			w.end("cm/a")
		}, NoOwner},
		{"restored: orphaned in what was lost", func(w world) {
			w.put("cm/o", "")
			w.put("cm/a", "< cm/o")
			o := w.there["cm/o"]
			w.client("cm/o", "Orphan")
			w.put("cm/o", "+ orphan terminating")
			w.end("cm/o")
			w.there["cm/o"] = o
			w.restore("ns/space", "cm/o", "cm/a")
			w.client("cm/o", "Background")
			w.end("cm/o")
			w.end("cm/a")
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			got := ""
			for _, v := range w.oracle.Violations() {
				got += v.Kind
				if report := w.oracle.Report(v); !strings.Contains(report, v.UID) || !strings.Contains(report, "revision") {
					t.Errorf("the report lacks the UID or the revision: %s", report)
				}
			}
			if got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}
