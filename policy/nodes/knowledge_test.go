package nodes_test

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
)

// TestAbsence: only a read that was sent since the object is missing proves that it is absent, and only for a
// while.
func TestAbsence(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	var a nodes.Absence
	a.Miss(at(0), true)
	a.Asked(at(40))
	a.Miss(at(41), false) // it is there again, while the read is on its way
	a.Miss(at(42), true)
	if a.Answered(at(43), gc.Absent); a.Absent() || a.Proven(at(43), time.Minute) {
		t.Error("a read from before counts")
	}
	if next := a.Next(time.Minute); !next.Equal(at(102)) {
		t.Errorf("read next at %v", next)
	}
	a.Asked(at(102))
	if a.Answered(at(105), gc.Absent); !a.Absent() || !a.Proven(at(162), time.Minute) || a.Proven(at(163), time.Minute) {
		t.Error("it is proven for a minute, from when the read was sent")
	}
	if next := a.Next(time.Minute); !next.Equal(at(162)) {
		t.Errorf("read again at %v", next)
	}
	a.Asked(at(170))
	if a.Answered(at(171), gc.Exists); a.Absent() || !a.Next(time.Minute).Equal(at(231)) {
		t.Error("it was found, and its quarantine does not begin anew")
	}
}
