package drivers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/volumes"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// emptyAPI lists nothing, and counts how often.
type emptyAPI struct {
	API
	lists int
}

func (a *emptyAPI) ListFields(context.Context, gc.Type, metadata.Selection, metadata.Fields, func(gc.Object, any) error) error {
	a.lists++
	return nil
}

// The live lists serve what is due together, and are not kept after that.
func TestListsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &emptyAPI{}
		v := New(Options{API: api})
		kept := func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.latest != nil
		}
		for range 3 {
			if _, err := v.lists(t.Context(), volumes.Config{}); err != nil {
				t.Fatal(err)
			}
		}
		if api.lists != len(listed) || !kept() {
			t.Errorf("%d lists for three volumes that are due together, want %d", api.lists, len(listed))
		}
		time.Sleep(proofFor)
		synctest.Wait()
		if kept() {
			t.Error("the lists are still in memory")
		}
	})
}
