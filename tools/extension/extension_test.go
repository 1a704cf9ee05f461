package extension_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ebb-agent/ebb/tools/extension"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixture struct {
	*extension.Server
	t       *testing.T
	cluster *peerstest.Cluster
}

func (b *fixture) ask(method, path string, in, out any) (code int) {
	b.t.Helper()
	err := b.cluster.Ask(b.t.Context(), method, path, in, out)
	var s *peers.StatusError
	switch {
	case errors.As(err, &s):
		return s.Code
	case err != nil:
		b.t.Fatal(err)
	}
	return http.StatusOK
}

func (b *fixture) list() (l metav1.PartialObjectMetadataList) {
	b.t.Helper()
	if code := b.ask(http.MethodGet, b.Path("things", "", ""), nil, &l); code != http.StatusOK {
		b.t.Fatalf("list: %d", code)
	}
	return l
}

// watch reads so many events.
func (b *fixture) watch(query string, n int) (got []string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.cluster.URL()+b.Path("things", "", "")+"?watch=true&allowWatchBookmarks=true"+query, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.cluster.Admin.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for len(got) < n && lines.Scan() {
		var e struct {
			Type   string
			Object metav1.PartialObjectMetadata
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			b.t.Fatal(err)
		}
		name := e.Object.Name
		if e.Object.Annotations[metav1.InitialEventsAnnotationKey] != "" {
			name = "end"
		}
		got = append(got, e.Type+" "+name)
	}
	return got
}

func (b *fixture) same(what string, got any, want any) {
	b.t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if string(g) != string(w) {
		b.t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// What clients of a real kube-apiserver see of the server, well and with each fault.
func TestServer(t *testing.T) {
	cluster := peerstest.Start(t, peers.Config{})
	s, err := extension.New(cluster.Authority(), extension.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.Register(t.Context(), cluster.ControlPlane); err != nil {
		t.Fatal(err)
	}
	b := &fixture{s, t, cluster}
	uid := s.Add("things", extension.Object{Namespace: "default", Name: "a"})
	b.same("create", b.ask(http.MethodPost, s.Path("things", "default", ""), map[string]any{"metadata": map[string]any{"name": "b", "finalizers": []string{"x/y"}}}, nil), 200)
	version := b.list().ResourceVersion
	b.same("streamed", b.watch("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 3), []string{"ADDED a", "ADDED b", "BOOKMARK end"})
	b.same("precondition", b.ask(http.MethodDelete, s.Path("things", "default", "a"), map[string]any{"preconditions": map[string]any{"uid": "other"}}, nil), 409)
	b.same("delete", b.ask(http.MethodDelete, s.Path("things", "default", "a"), map[string]any{"preconditions": map[string]any{"uid": uid}}, nil), 200)
	b.same("delete what is held", b.ask(http.MethodDelete, s.Path("things", "default", "b"), nil, nil), 200)
	s.Change("things", "default", "b", func(o *extension.Object) { o.Finalizers = nil })
	s.Remove("things", "default", "b")
	b.same("watched", b.watch("&resourceVersion="+version, 4), []string{"DELETED a", "MODIFIED b", "MODIFIED b", "DELETED b"})
	b.faults()
}

func (b *fixture) faults() {
	s := b.Server
	s.Add("things", extension.Object{Namespace: "default", Name: "a"})
	s.Add("things", extension.Object{Namespace: "default", Name: "c"})
	a := s.Path("things", "default", "a")
	for f, test := range map[extension.Fault]func(){
		extension.NotFound:   func() { b.same("NotFound", b.ask(http.MethodGet, a, nil, nil), 404) },
		extension.EmptyLists: func() { b.same("EmptyLists", len(b.list().Items), 0) },
		extension.LowerVersions: func() {
			var o metav1.PartialObjectMetadata
			b.ask(http.MethodGet, a, nil, &o)
			if l := b.list(); o.ResourceVersion >= l.Items[0].ResourceVersion {
				b.t.Errorf("read %s, listed %s", o.ResourceVersion, l.Items[0].ResourceVersion)
			}
		},
		extension.ListVersionOfItems: func() {
			l := b.list()
			b.same("ListVersionOfItems", l.ResourceVersion, l.Items[1].ResourceVersion)
		},
		extension.EndlessList: func() {
			b.same("EndlessList", b.watch("&sendInitialEvents=true", 4), []string{"ADDED a", "ADDED c", "MODIFIED a", "MODIFIED a"})
		},
		extension.Unstreamed:        func() { b.same("Unstreamed", b.watch("&sendInitialEvents=true", 1), []string{" "}) },
		extension.NoUID:             func() { b.same("NoUID", string(b.list().Items[2].UID), "") },
		extension.NoListVersion:     func() { b.same("NoListVersion", b.list().ResourceVersion, "") },
		extension.EndsAfterBookmark: func() { b.same("EndsAfterBookmark", b.watch("&resourceVersion=2500000", 9), []string{"BOOKMARK "}) },
	} {
		s.Set(f)
		test()
		s.Clear(f)
	}
	b.restart(a)
	s.Set(extension.Silent)
	ctx, cancel := context.WithTimeout(b.t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := b.cluster.Ask(ctx, http.MethodGet, a, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		b.t.Errorf("Silent: %v", err)
	}
	s.Clear(extension.Silent)
	b.same("answers again", b.ask(http.MethodGet, a, nil, nil), 200)
	if all := s.Asked(); !slices.Contains(all, "GET things default/a") || !slices.Contains(all, "LIST things") || !slices.Contains(all, "WATCH things") {
		b.t.Errorf("asked: %v", all)
	}
}

func (b *fixture) restart(a string) {
	ended := make(chan struct{})
	go func() {
		defer close(ended) // by the restart, before or after it was answered
		_ = b.cluster.Ask(b.t.Context(), http.MethodGet, b.Path("things", "", "")+"?watch=true&resourceVersion=2500000", nil, nil)
	}()
	for running := true; running; { // it may not have begun
		b.Restart()
		select {
		case <-ended:
			running = false
		case <-time.After(50 * time.Millisecond):
		}
	}
	b.same("restarted", b.list().ResourceVersion, "2")
	patch := []any{map[string]any{"op": "test", "path": "/metadata/name", "value": "a"}, map[string]any{"op": "add", "path": "/metadata/finalizers", "value": []string{"x/y"}}}
	b.same("patched", b.patch(a, patch), 200)
	o, _ := b.Get("things", "default", "a")
	b.same("finalizers", o.Finalizers, []string{"x/y"})
	patch[0].(map[string]any)["value"] = "z"
	b.same("a test that fails", b.patch(a, patch), 422)
}

func (b *fixture) patch(path string, ops any) int {
	b.t.Helper()
	data, err := json.Marshal(ops)
	if err != nil {
		b.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPatch, b.cluster.URL()+path, bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json-patch+json")
	resp, err := b.cluster.Admin.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
