package metadata

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

func aggregatedType() gc.Type {
	t := anyType
	t.Aggregated = true
	return t
}

// jsonObjects are objects as another API server sends them, and what encloses them.
func jsonObjects(enclosed string, objects ...string) answering {
	return code(http.StatusOK, mediaJSON, fmt.Sprintf(enclosed, strings.Join(objects, ",")))
}

const (
	nameless = `{"kind":"CronTab","metadata":{"uid":"u9","resourceVersion":"9"}}`
	uidless  = `{"kind":"CronTab","metadata":{"name":"odd","resourceVersion":"9"}}`
	whole    = `{"kind":"CronTab","metadata":{"name":"o1","uid":"u1","resourceVersion":"9"}}`
)

// What a follower reports of a type of another API server, and what it asks for.
func TestFollowerOfAggregated(t *testing.T) {
	for name, test := range map[string]struct {
		steps []step
		want  []string
	}{
		"lists are never streamed, and a version that goes back is none": {
			steps: []step{
				{"page", listing("110", "more", 1)},
				{"page more", listing("7", "", 2)},
				{"watch 110", watching(gone(1), mark("3"))},
				{"page", listing("2", "", 2)},
				{"watch 2", watching(obj(3), nil)}},
			want: []string{"listing", "observed o1", "observed o2", "synced 110", "deleted o1", "progress 3", "listing", "observed o2", "synced 2", "observed o3"},
		},
		"what cannot be followed is skipped": {
			steps: []step{
				{"page", jsonObjects(`{"metadata":{"resourceVersion":"9"},"items":[%s]}`, uidless, whole, nameless)},
				{"watch 9", code(http.StatusOK, mediaJSON, `{"type":"MODIFIED","object":`+uidless+`}
					{"type":"BOOKMARK","object":{"kind":"CronTab","metadata":{}}}
					{"type":"DELETED","object":{"kind":"CronTab","metadata":{"name":"o1","uid":"u1"}}}`)},
				{"page", listing("10", "")},
				{"watch 10", watching(nil)}},
			want: []string{"listing", "skipped odd", "observed o1", "skipped ", "synced 9", "skipped odd", "deleted o1", "listing", "synced 10"},
		},
		"a list without a version is listed again when the watch is open": {
			steps: []step{
				{"page", jsonObjects(`{"metadata":{},"items":[%s]}`, whole)},
				{"watch ", func(t *testing.T, w http.ResponseWriter, r *http.Request) {
					watching(obj(5), nil)(t, w, r)
				}},
				{"page", jsonObjects(`{"metadata":{},"items":[%s]}`, whole)}},
			want: []string{"listing", "observed o1", "synced ", "listing", "observed o1", "synced ", "observed o5"},
		},
		"a list that does not go on": {
			steps: []step{
				{"page", listing("110", "more", 1)},
				{"page more", listing("110", "more", 1)},
				{"page", listing("110", "", 1)},
				{"watch 110", watching(nil)}},
			want: []string{"listing", "observed o1", "unreadable", "listing", "observed o1", "synced 110"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRecordingSink()
			start(t, serve(t, &script{t: t, steps: test.steps}, Options{}).Follow(aggregatedType(), nil, s.sink))
			s.expect(t, test.want...)
		})
	}
}

// A server that ends each watch right after a bookmark (kubernetes issue 134837) is
// asked less and less often, and its type stays readable. What is long is not listed
// again while the version is the same.
func TestEndedWatchesAreTakenUpSlowly(t *testing.T) {
	for name, objects := range map[string]int{"short": 3, "long": pageSize + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var asked []time.Time
			var lists int
			done := make(chan struct{})
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				mu.Lock()
				defer mu.Unlock()
				switch {
				case q.Get("watch") == "":
					if q.Get("limit") != "1" {
						lists++
					}
					listing("110", "", slices.Repeat([]int{1}, objects)...)(t, w, r)
				default:
					if asked = append(asked, time.Now()); len(asked) == 10 {
						close(done)
					}
					watching(mark("110"))(t, w, r)
				}
			}), Options{})
			c.timing.minPause, c.timing.maxPause = 2*time.Millisecond, 40*time.Millisecond
			s := newRecordingSink()
			start(t, c.Follow(aggregatedType(), nil, s.sink))
			<-done
			mu.Lock()
			defer mu.Unlock()
			// Six pauses of 2, 4, 8, 16, 32, 40 ms at least by half, however they fall.
			if took := asked[9].Sub(asked[0]); took < 30*time.Millisecond {
				t.Errorf("ten watches within %v", took)
			}
			if objects > pageSize && lists != 1 {
				t.Errorf("%d lists", lists)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if slices.Contains(s.all, "unreadable") {
				t.Errorf("reported: %v", s.all)
			}
		})
	}
}

// Silence of the other API server shows nothing about the one in front of it.
func TestSilenceOfAnother(t *testing.T) {
	s := newRecordingSink()
	c := serve(t, &script{t: t, steps: []step{{"page", listing("110", "")}, {"watch 110", watching(nil)}, {"page", listing("110", "")}}},
		Options{})
	c.timing.idle = time.Second
	start(t, c.Follow(aggregatedType(), nil, s.sink))
	s.expect(t, "listing", "synced 110", "listing", "synced 110")
	c.continuity.mu.Lock()
	defer c.continuity.mu.Unlock()
	if c.continuity.epoch != 0 || !c.continuity.since.IsZero() {
		t.Errorf("the API server was away: %+v", c.continuity.since)
	}
}
