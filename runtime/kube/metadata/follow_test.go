package metadata

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	tooOld   = &metav1.Status{Status: "Failure", Code: 410, Reason: "Expired", Message: "too old resource version"}
	tooLarge = &metav1.Status{Status: "Failure", Code: 504, Reason: "Timeout", Message: "Too large resource version",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}}}
	unknownOption = &metav1.Status{Status: "Failure", Code: 422, Reason: "Invalid", Message: "sendInitialEvents: Forbidden"}
)

// What a follower reports, and what it asks for, whatever the server does.
func TestFollowerReports(t *testing.T) {
	for name, test := range map[string]struct {
		steps []step
		want  []string
		kinds []error // of the Unreadables
	}{
		"a list, events, a bookmark": {
			steps: []step{{"stream", watching(obj(1), obj(2), end("110"), obj(11), gone(2), mark("150"), nil)}},
			want:  []string{"listing", "observed o1", "observed o2", "synced 110", "observed o11", "deleted o2", "progress 150"},
		},
		"an empty list": {
			steps: []step{{"stream", watching(end("110"), nil)}},
			want:  []string{"listing", "synced 110"},
		},
		"a watch that is cut off is taken up where it was, quietly": {
			steps: []step{
				{"stream", watching(obj(1), end("110"), obj(20), cutShort(obj(21)))},
				{"probe", listing("130", "", 20)},
				{"watch 120", watching(obj(21), nil)}},
			want: []string{"listing", "observed o1", "synced 110", "observed o20", "observed o21"},
		},
		"a bookmark counts": {
			steps: []step{
				{"stream", watching(end("110"), mark("150"))},
				{"probe", listing("150", "")},
				{"watch 150", watching(obj(60), nil)}},
			want: []string{"listing", "synced 110", "progress 150", "observed o60"},
		},
		"a list that breaks off is no list": {
			steps: []step{
				{"stream", watching(obj(1), obj(2))},
				{"stream", watching(obj(1), end("110"), nil)}},
			want:  []string{"listing", "observed o1", "observed o2", "unreadable", "listing", "observed o1", "synced 110"},
			kinds: []error{ErrUnavailable},
		},
		"410 in the stream": {
			steps: []step{
				{"stream", watching(end("110"), failure(tooOld))},
				{"stream", watching(obj(1), end("120"), nil)}},
			want: []string{"listing", "synced 110", "listing", "observed o1", "synced 120"},
		},
		"410 to the watch": {
			steps: []step{
				{"stream", watching(end("110"))},
				{"probe", listing("110", "")},
				{"watch 110", statusAnswer(tooOld)},
				{"stream", watching(end("120"), nil)}},
			want: []string{"listing", "synced 110", "listing", "synced 120"},
		},
		"a version of the future": {
			steps: []step{
				{"stream", watching(end("110"))},
				{"probe", listing("110", "")},
				{"watch 110", statusAnswer(tooLarge)},
				{"stream", watching(end("120"), nil)}},
			want: []string{"listing", "synced 110", "listing", "synced 120"},
		},
		"etcd was restored, seen by the probe": {
			steps: []step{
				{"stream", watching(obj(1), end("110"))},
				{"probe", listing("90", "")},
				{"stream", watching(end("91"), nil)}},
			want: []string{"listing", "observed o1", "synced 110", "went-back", "listing", "synced 91"},
		},
		"etcd was restored, seen by a list": {
			steps: []step{
				{"stream", watching(end("110"), failure(tooOld))},
				{"stream", watching(obj(1), end("90"), nil)},
				{"stream", watching(obj(1), end("91"), nil)}},
			want: []string{"listing", "synced 110", "listing", "observed o1", "went-back", "listing", "observed o1", "synced 91"},
		},
		"a server that does not stream lists": {
			steps: []step{
				{"stream", statusAnswer(unknownOption)},
				{"page", listing("110", "more", 1, 2)},
				{"page more", listing("110", "", 3)},
				{"watch 110", watching(obj(11), nil)}},
			want: []string{"listing", "observed o1", "observed o2", "observed o3", "synced 110", "observed o11"},
		},
		"a page that expired": {
			steps: []step{
				{"stream", statusAnswer(unknownOption)},
				{"page", listing("110", "more", 1)},
				{"page more", statusAnswer(tooOld)},
				{"whole", listing("120", "", 1)},
				{"watch 120", watching(nil)}},
			want: []string{"listing", "observed o1", "listing", "observed o1", "synced 120"},
		},
		"pages that expire although none were asked for": {
			steps: []step{
				{"stream", statusAnswer(unknownOption)},
				{"page", listing("110", "more", 1)},
				{"page more", statusAnswer(tooOld)},
				{"whole", listing("120", "more", 1)},
				{"page more", statusAnswer(tooOld)},
				{"stream", watching(end("130"), nil)}},
			want:  []string{"listing", "observed o1", "listing", "observed o1", "unreadable", "listing", "synced 130"},
			kinds: []error{ErrUnavailable},
		},
		"unavailable, and then on without a gap": {
			steps: []step{
				{"stream", watching(obj(1), end("110"))},
				{"probe", code(http.StatusServiceUnavailable, "text/plain", "apiserver is shutting down")},
				{"probe", listing("110", "", 1)},
				{"watch 110", watching(obj(11), nil)}},
			want:  []string{"listing", "observed o1", "synced 110", "unreadable", "synced 110", "observed o11"},
			kinds: []error{ErrUnavailable},
		},
		"forbidden, and allowed again": {
			steps: []step{
				{"stream", statusAnswer(&metav1.Status{Status: "Failure", Code: 403, Reason: "Forbidden", Message: `crontabs is forbidden: User "u" cannot list`})},
				{"stream", watching(end("110"), nil)}},
			want:  []string{"unreadable", "listing", "synced 110"},
			kinds: []error{ErrForbidden},
		},
		"the type has gone, and come again": {
			steps: []step{
				{"stream", watching(obj(1), end("110"))},
				{"probe", code(http.StatusNotFound, "text/plain", "404 page not found")},
				{"stream", watching(end("120"), nil)}},
			want:  []string{"listing", "observed o1", "synced 110", "unreadable", "listing", "synced 120"},
			kinds: []error{ErrNotServed},
		},
		"HTML": {
			steps: []step{
				{"stream", code(http.StatusOK, "text/html", "<html>sign in</html>")},
				{"stream", watching(end("110"), nil)}},
			want:  []string{"unreadable", "listing", "synced 110"},
			kinds: []error{ErrMalformed},
		},
		"a redirect": {
			steps: []step{
				{"stream", func(t *testing.T, w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, "/elsewhere", http.StatusFound)
				}},
				{"stream", watching(end("110"), nil)}},
			want:  []string{"unreadable", "listing", "synced 110"},
			kinds: []error{ErrMalformed},
		},
		"an object without a name": {
			steps: []step{
				{"stream", watching(func(t require) []byte { return put1(t, &metav1.PartialObjectMetadata{}) })},
				{"stream", watching(end("110"), nil)}},
			want:  []string{"listing", "unreadable", "listing", "synced 110"},
			kinds: []error{ErrMalformed},
		},
		"whole objects in JSON": {
			steps: []step{{"stream", code(http.StatusOK, mediaJSON, `{"type":"ADDED","object":{"kind":"CronTab","metadata":{"name":"o1","uid":"u","resourceVersion":"5"},"spec":{}}}
				{"type":"BOOKMARK","object":{"kind":"CronTab","metadata":{"resourceVersion":"110","annotations":{"k8s.io/initial-events-end":"true"}}}}
				{"type":"DELETED","object":{"kind":"CronTab","metadata":{"name":"o1","uid":"u","resourceVersion":"120"}}}`)},
				{"probe", code(http.StatusOK, mediaJSON, `{"kind":"List","metadata":{"resourceVersion":"120"},"items":[]}`)},
				{"watch 120", watching(nil)}},
			want: []string{"listing", "observed o1", "synced 110", "deleted o1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRecordingSink()
			server := &script{t: t, steps: test.steps}
			start(t, serve(t, server, Options{}).Follow(anyType, nil, s.sink))
			s.expect(t, test.want...)
			if len(s.errs) != len(test.kinds) {
				t.Fatalf("unreadable: %v", s.errs)
			}
			for i, want := range test.kinds {
				if !errors.Is(s.errs[i], want) {
					t.Errorf("unreadable: %v, want %v", s.errs[i], want)
				}
			}
		})
	}
}

func TestSilentServerIsAskedAgain(t *testing.T) {
	s := newRecordingSink()
	c := serve(t, &script{t: t, steps: []step{
		{"stream", watching(obj(1), nil)}, // never marks that this was all
		{"page", listing("110", "", 1)},
		{"watch 110", watching(obj(11), nil)}, // falls silent
		{"probe", listing("111", "")},
		{"watch 111", watching(obj(12), nil)},
	}}, Options{Timeout: 2 * time.Second})
	c.timing.idle = time.Second
	start(t, c.Follow(anyType, nil, s.sink))
	s.expect(t, "listing", "observed o1", "listing", "observed o1", "synced 110", "observed o11", "observed o12")
}

// After a long absence of the API server a watch is not resumed although it could be: the type
// is listed, and the event has the version up to which all was reported.
func TestAwayMeansList(t *testing.T) {
	s := newRecordingSink()
	c := serve(t, &script{t: t, steps: []step{
		{"stream", watching(obj(1), end("110"), obj(20))},
		{"stream", watching(obj(1), end("131"), obj(40))},
		{"probe", listing("140", "")},
		{"watch 140", watching(obj(41), nil)}, // it was there all the time, for another
	}}, Options{})
	c.continuity.after = time.Nanosecond
	var versions []string
	start(t, c.Follow(anyType, nil, func(ctx context.Context, batch []Event) error {
		for _, e := range batch {
			if e.Kind == Listing {
				versions = append(versions, e.ResourceVersion)
			}
			if e.Object.Name == "o40" {
				c.continuity.mu.Lock()
				c.continuity.after = time.Hour
				c.continuity.mu.Unlock()
			}
		}
		return s.sink(ctx, batch)
	}))
	s.expect(t, "listing", "observed o1", "synced 110", "observed o20", "away", "listing", "observed o1", "synced 131", "observed o40", "observed o41")
	if fmt.Sprint(versions) != "[ 120]" {
		t.Errorf("lists begin at %q", versions)
	}
}

func TestRelist(t *testing.T) {
	s := newRecordingSink()
	c := serve(t, &script{t: t, steps: []step{
		{"stream", watching(obj(1), end("110"), nil)},
		{"stream", watching(end("120"), nil)},
	}}, Options{})
	f := c.Follow(anyType, nil, s.sink)
	start(t, f)
	s.expect(t, "listing", "observed o1", "synced 110")
	f.Relist()
	s.expect(t, "listing", "observed o1", "synced 110", "listing", "synced 120")
}

func TestSinkEndsRun(t *testing.T) {
	enough := errors.New("enough")
	c := serve(t, &script{t: t, steps: []step{{"stream", watching(end("110"), nil)}}}, Options{})
	f := c.Follow(anyType, nil, func(context.Context, []Event) error { return enough })
	if err := f.Run(t.Context()); err != enough {
		t.Errorf("Run: %v", err)
	}
}

// A type that is silent gives up its place among those that are listed.
func TestSilentListsDoNotHoldOthers(t *testing.T) {
	s := newRecordingSink()
	silent := make(chan struct{}, 2)
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/example.com/v1/crontabs" {
			watching(end("110"), nil)(t, w, r)
			return
		}
		silent <- struct{}{}
		<-r.Context().Done()
	}), Options{})
	c.lists, c.timing.silence = make(chan struct{}, 1), 50*time.Millisecond
	other := anyType
	other.Resource = "broken"
	start(t, c.Follow(other, nil, newRecordingSink().sink))
	<-silent
	start(t, c.Follow(anyType, nil, s.sink))
	s.expect(t, "listing", "synced 110")
}
