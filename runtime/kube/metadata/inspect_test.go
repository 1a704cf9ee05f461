package metadata

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Labels and the time of the deletion are read from both forms as Kubernetes wrote them, and
// only where they are wanted.
func TestDetails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyObject().Draw(t, "object")
		want := ListedObject{Labels: o.Labels}
		if at := o.DeletionTimestamp; at != nil {
			want.Deleted = at.UTC()
		}
		asJSON, err := json.Marshal(&metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{*o}})
		if err != nil {
			t.Fatal(err)
		}
		var fromJSON *ListedObject
		if _, err := jsonList(strings.NewReader(string(asJSON)), true, func(it item) error { fromJSON = it.listed; return nil }); err != nil {
			t.Fatal(err)
		}
		it, err := (&decoder{details: true}).partial(marshal(t, o))
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]*ListedObject{"protobuf": it.listed, "json": fromJSON} {
			if len(got.Labels) == 0 && len(want.Labels) == 0 {
				got.Labels = want.Labels
			}
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Fatalf("%s: %s", name, diff)
			}
		}
		if it, err := new(decoder).partial(marshal(t, o)); err != nil || it.listed != nil {
			t.Fatalf("%+v, %v", it.listed, err)
		}
	})
}

// FuzzDetails: whatever is in them, labels and times are an error or what Kubernetes reads.
func FuzzDetails(f *testing.F) {
	rapidSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		it, err := (&decoder{details: true}).partial(b)
		var o metav1.PartialObjectMetadata
		if err != nil || o.Unmarshal(b) != nil {
			return
		}
		if (len(it.listed.Labels) > 0 || len(o.Labels) > 0) && !cmp.Equal(it.listed.Labels, o.Labels) {
			t.Errorf("labels %q, want %q", it.listed.Labels, o.Labels)
		}
		if at := o.DeletionTimestamp; at != nil && !at.IsZero() && !it.listed.Deleted.Equal(at.Time) {
			t.Errorf("deleted %s, want %s", it.listed.Deleted, at)
		}
	})
}

// paging answers lists of three pages with an object each, and fails where fail demands it.
type paging struct {
	fail  func(request int, page string) int
	asked []string
}

func (p *paging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.asked = append(p.asked, r.URL.Path+" "+label(q))
	w.Header().Set("Content-Type", mediaJSON)
	if code := p.fail(len(p.asked), q.Get("continue")); code != 0 {
		reason := map[int]string{410: "Expired", 403: "Forbidden"}[code]
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","code":%d,"reason":%q,"message":"no"}`, code, reason)
		return
	}
	item := func(i int) string {
		return fmt.Sprintf(`{"metadata":{"name":"x%d","namespace":"n","uid":"u%d","resourceVersion":"%d","labels":{"of":%q}}}`, i, i, i+1, q.Get("fieldSelector"))
	}
	next, items := "", item(0)+","+item(1)+","+item(2)
	if q.Get("limit") != "" {
		n := len(q.Get("continue"))
		items = item(n)
		if n < 2 {
			next = strings.Repeat("c", n+1)
		}
	}
	fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"9","continue":%q},"items":[%s]}`, next, items)
}

// A list is reported once and whole, or it is an error: a receiver that is notified of a new
// start has nothing from before.
func TestListOnce(t *testing.T) {
	pods := gc.Type{APIVersion: "v1", Kind: "Pod", Resource: "pods", Namespaced: true}
	pages := []string{"page", "page c", "page cc"}
	for name, test := range map[string]struct {
		fail      func(request int, page string) int
		selection Selection
		want      []string
		err       error
	}{
		"well":             {func(int, string) int { return 0 }, Selection{}, pages, nil},
		"selected":         {func(int, string) int { return 0 }, Selection{Namespace: "n", Fields: "type=x"}, pages, nil},
		"busy once":        {func(n int, _ string) int { return map[int]int{2: 503}[n] }, Selection{}, append([]string{"page", "page c"}, pages...), nil},
		"pages expire":     {func(_ int, c string) int { return map[string]int{"cc": 410}[c] }, Selection{}, append(slices.Clone(pages), "whole"), nil},
		"forbidden":        {func(int, string) int { return 403 }, Selection{}, []string{"page"}, ErrForbidden},
		"always broken":    {func(int, string) int { return 500 }, Selection{}, []string{"page", "page", "page"}, ErrUnavailable},
		"no such segments": {func(int, string) int { return 0 }, Selection{Namespace: ".."}, nil, ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			p := &paging{fail: test.fail}
			c := serve(t, p, Options{})
			var got []string
			err := c.List(t.Context(), pods, test.selection, func() { got = nil }, func(o ListedObject) { got = append(got, o.Name+o.Kind+o.Labels["of"]) })
			if !errors.Is(err, test.err) {
				t.Errorf("%v, want %v", err, test.err)
			}
			path := "/api/v1/pods "
			if test.selection.Namespace != "" {
				path = "/api/v1/namespaces/n/pods "
			}
			var asked []string
			for _, a := range test.want {
				asked = append(asked, path+a)
			}
			if diff := cmp.Diff(asked, p.asked); diff != "" {
				t.Error(diff)
			}
			of := test.selection.Fields
			if want := []string{"x0Pod" + of, "x1Pod" + of, "x2Pod" + of}; err == nil && !slices.Equal(got, want) {
				t.Errorf("%q", got)
			}
			if _, ok := c.Time(time.Now()); !ok && (err == nil || errors.Is(err, ErrForbidden)) {
				t.Error("the time is not known")
			}
		})
	}
}

// What is read whole is read page by page, too.
func TestWholeList(t *testing.T) {
	p := &paging{fail: func(int, string) int { return 0 }}
	c := serve(t, p, Options{})
	var got []string
	err := c.WholeList(t.Context(), gc.Type{APIVersion: "v1", Resource: "pods"}, Selection{}, func(data json.RawMessage) error {
		var o jsonObject
		err := json.Unmarshal(data, &o)
		got = append(got, o.Metadata.Name)
		return err
	})
	if want := []string{"x0", "x1", "x2"}; err != nil || !slices.Equal(got, want) || len(p.asked) != 3 {
		t.Errorf("%q, %v, asked %q", got, err, p.asked)
	}
}
