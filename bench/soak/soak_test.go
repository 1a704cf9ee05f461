package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/bench/soak/oracle"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A soak fails if an object with a living owner is deleted. It reports the history of
// that object, and keeps the logs.
func TestFindsAWrongDeletion(t *testing.T) {
	peerstest.Need(t)
	keep := t.TempDir()
	err := run(t.Context(), options{seed: 1, soak: time.Minute, bound: time.Minute, definitions: 8, objects: 200, rate: 20, gap: 100, requests: 1000, plant: true,
		controller: buildtest.Program(t, "cmd/ebb-controller"), deploy: "../../deploy/manifests", results: t.TempDir(), keep: keep})
	if err == nil || !strings.Contains(err.Error(), oracle.LivingOwner+": ConfigMap soak-0/soak-planted ") || !strings.Contains(err.Error(), "history of") {
		t.Errorf("the error is %v", err)
	}
	for _, name := range []string{"histories.txt", "operations.log", "ebb-controller-1.log", "audit.log", "audit-2.log", "kube-apiserver.log"} {
		if found, err := filepath.Glob(filepath.Join(keep, "seed-1-*", name)); len(found) != 1 || err != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "ebb-soak-*")); len(left) > 0 && err == nil {
		t.Logf("left, by this or another soak: %v", left)
	}
}

func TestUnseen(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(s) * time.Second) }
	var o outages
	o.end(o.begin(at(100)), at(110))
	for _, c := range []struct {
		written, now int
		want         bool
	}{
		{50, 55, true}, {50, 65, false}, {95, 108, true}, {80, 108, false}, {105, 150, true}, {105, 156, false}, {154, 156, true},
	} {
		if got := o.unseen(at(c.written), at(c.now)); got != c.want {
			t.Errorf("written at %d, now %d: %v", c.written, c.now, got)
		}
	}
	if !o.lately(at(105)) || !o.lately(at(150)) || o.lately(at(156)) {
		t.Error("lately")
	}
	o.begin(at(200))
	if !o.unseen(at(195), at(900)) || o.unseen(at(150), at(199)) {
		t.Error("an outage that lasts")
	}
}

// Each is late from the moment at which it is due; another API server's have their own
// bound.
func TestRemainder(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(s) * time.Second) }
	a, b, c := oracle.Due{What: "delete", UID: "a"}, oracle.Due{What: "delete", UID: "b"}, oracle.Due{What: "tidy", UID: "c", Outside: true}
	var r remainder
	for _, s := range []struct {
		now           int
		due           []oracle.Due
		waits, missed int
	}{
		{0, []oracle.Due{a}, 1, 0}, {50, []oracle.Due{a, b, c}, 3, 0}, {70, []oracle.Due{a, b, c}, 2, 1}, {100, []oracle.Due{b, c}, 2, 0},
		{120, []oracle.Due{b, c}, 1, 1}, {200, []oracle.Due{c}, 1, 0}, {700, []oracle.Due{c}, 0, 1},
	} {
		waits, missed := r.look(at(s.now), s.due, time.Minute, 10*time.Minute)
		if len(waits) != s.waits || len(missed) != s.missed {
			t.Errorf("at %d: waits for %v, missed %v", s.now, waits, missed)
		}
	}
	if r.late != 70*time.Second || r.lateOutside != 650*time.Second {
		t.Errorf("late by %v, %v", r.late, r.lateOutside)
	}
	if waits, missed := r.look(at(0), []oracle.Due{c}, time.Minute, 0); len(waits)+len(missed) > 0 {
		t.Error("what is left out is waited for")
	}
}
