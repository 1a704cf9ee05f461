package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ebb-agent/ebb/tools/peers"
)

// What was created before CatchUp was called has been observed when it returns,
// while others write, and what was deleted since does not come back.
func TestCatchUp(t *testing.T) {
	b := newFixture(t, peers.Config{})
	s := follow(t, b.client, configMaps)
	s.until(t, "the list", isSynced)

	ctx := t.Context()
	var enough atomic.Bool // what was begun is finished: the end is the same for all
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; !enough.Load(); i++ {
				name := fmt.Sprintf("noise-%d-%d", w, i%50)
				// Either may come too late: that is the noise.
				_ = b.Ask(ctx, http.MethodPost, mapsPath, configMap(name, nil), nil)
				_ = b.Ask(ctx, http.MethodDelete, fmt.Sprintf("%s/noise-%d-%d", mapsPath, w, (i+25)%50), nil, nil)
			}
		})
	}
	for round := range 200 {
		uid := b.Must(t, http.MethodPost, mapsPath, configMap(fmt.Sprintf("round-%d", round), nil))
		err := s.CatchUp(t.Context())
		if _, ok := s.get(uid); !ok || err != nil {
			enough.Store(true)
			wg.Wait()
			t.Fatalf("round %d: the object was observed: %t, %v", round, ok, err)
		}
	}
	enough.Store(true)
	wg.Wait()
	// No ghost: in the end exactly what is there is known.
	var list struct {
		Items []struct{ Metadata struct{ UID string } }
	}
	if err := b.Ask(t.Context(), http.MethodGet, "/api/v1/configmaps", nil, &list); err != nil {
		t.Fatal(err)
	}
	s.until(t, "the end of the noise", func(s *seen) bool {
		for _, o := range list.Items {
			if _, ok := s.objects[o.Metadata.UID]; !ok {
				return false
			}
		}
		return len(s.objects) == len(list.Items)
	})
}
