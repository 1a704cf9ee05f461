package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

func TestDecisionsAreBounded(t *testing.T) {
	var g Gate
	for i := range 3000 {
		g.decisions.add(gc.Action{Verb: gc.Delete, Object: gc.Coordinates{Name: fmt.Sprint(i)}}, "done", metadata.Outcome{}, time.Time{})
	}
	list := g.Decisions()
	if len(list) != decisionLogSize || list[0].Object.Name != "2999" || list[decisionLogSize-1].Object.Name != fmt.Sprint(3000-decisionLogSize) {
		t.Errorf("%d, from %s to %s", len(list), list[0].Object.Name, list[len(list)-1].Object.Name)
	}
}
