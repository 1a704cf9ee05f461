package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// What was created before CatchUp was called has been told when it returns,
// while others write, and what was deleted since does not come back.
func TestCatchUp(t *testing.T) {
	b := newBed(t)
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
				_ = b.ask(ctx, http.MethodPost, mapsPath, configMap(name, nil), nil)
				_ = b.ask(ctx, http.MethodDelete, fmt.Sprintf("%s/noise-%d-%d", mapsPath, w, (i+25)%50), nil, nil)
			}
		})
	}
	for round := range 200 {
		uid := b.must(t, http.MethodPost, mapsPath, configMap(fmt.Sprintf("round-%d", round), nil))
		err := s.CatchUp(t.Context())
		if _, ok := s.get(uid); !ok || err != nil {
			enough.Store(true)
			wg.Wait()
			t.Fatalf("round %d: the object was told of: %t, %v", round, ok, err)
		}
	}
	enough.Store(true)
	wg.Wait()
	// No ghost: in the end exactly what is there is known.
	var list struct {
		Items []struct{ Metadata struct{ UID string } }
	}
	if err := b.ask(t.Context(), http.MethodGet, "/api/v1/configmaps", nil, &list); err != nil {
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

// Long lists are not read to their end, and no type needs more than a few
// seconds: with pages, and by the version that the stream has come to.
func TestCatchUpOfMany(t *testing.T) {
	b := newBed(t)
	s := follow(t, b.client, configMaps)
	s.until(t, "the list", isSynced)
	for _, n := range []int{5_000, 11_000} {
		b.must(t, http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": fmt.Sprintf("many-%d", n)}})
		uids, _ := b.fill(t, fmt.Sprintf("many-%d", n), n)
		began := time.Now()
		if err := s.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d objects more: %v", n, time.Since(began))
		for _, uid := range uids {
			if _, ok := s.get(uid); !ok {
				t.Fatalf("of %d objects one was not told of", n)
			}
		}
	}
	// Nothing has happened to the type since; all else went on. Only a bookmark can tell
	// that the stream has come to where the list is.
	for i := range 30 {
		b.must(t, http.MethodPost, "/api/v1/namespaces/default/secrets", object{"metadata": object{"name": fmt.Sprintf("other-%d", i)}})
	}
	before := s.count(metadata.Observed)
	began := time.Now()
	if err := s.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("a quiet type of many objects: %v, %d objects told again", took, s.count(metadata.Observed)-before)
	if told := s.count(metadata.Observed) - before; took > 10*time.Second || told > 1000 {
		t.Errorf("%v, %d objects were told again: it was listed to its end", took, told)
	}
}
