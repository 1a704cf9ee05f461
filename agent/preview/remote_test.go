package preview

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
)

func TestQueryGoesThroughAURL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 60, 240)
		q := Query{Resource: text.Draw(t, "resource"), Name: text.Draw(t, "name"), Namespace: rapid.StringN(0, 60, 240).Draw(t, "namespace"),
			Policy: rapid.SampledFrom([]gc.Policy{gc.Background, gc.Foreground, gc.Orphan}).Draw(t, "policy"),
			Limits: preview.Limits{Nodes: rapid.IntRange(0, MostNodes).Draw(t, "most"), Alike: rapid.IntRange(0, MostNodes).Draw(t, "alike")}}
		if got, err := ParseQuery(q.Values()); err != nil || got != q {
			t.Fatalf("%+v, %v, want %+v", got, err, q)
		}
	})
}

// Who does not answer as a controller does is said to, in words that help.
func TestAskRefused(t *testing.T) {
	say := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); _, _ = w.Write([]byte(text)) }
	}
	for _, test := range []struct {
		name string
		h    http.HandlerFunc
		want string
	}{
		{"another server", http.NotFound, "on its admin socket, and on its address only if that is a loopback one"},
		{"standby", say(503, "this instance does not lead\n"), "this instance does not lead"},
		{"rubbish for a terminal", say(500, "\x1b[2J"+strings.Repeat("x", 1<<20)), "\uFFFD[2Jxxx"},
		{"redirect", http.RedirectHandler("http://example.invalid/", http.StatusFound).ServeHTTP, "Found"},
		{"no preview", say(200, "{}"), "it is not a preview"},
		{"a hole in the tree", say(200, `{"source":"controller","root":{"dependents":[null]}}`), "it is not a preview"},
		{"no JSON", say(200, "<html>"), "read the answer"},
	} {
		server := httptest.NewServer(test.h)
		_, err := Ask(t.Context(), server.URL, Query{Resource: "pods", Name: "p"})
		server.Close()
		if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 600 {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	for _, address := range []string{"", "x", "https://127.0.0.1", "http://u:p@h", "http://h/path", "http://h?a=b", "unix://host/path", "unix:relative", "http://%zz"} {
		if _, err := Ask(t.Context(), address, Query{}); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := Ask(t.Context(), "unix://"+filepath.Join(t.TempDir(), "none"), Query{}); err == nil || !strings.Contains(err.Error(), "server.adminSocket") {
		t.Errorf("nobody there: %v", err)
	}
}

// The answer of a controller is told as it was given.
func TestAsk(t *testing.T) {
	few := 7
	want := Answer{Source: FromController, Preview: preview.Preview{Policy: gc.Orphan, Root: &preview.Node{Object: preview.Object{Kind: "Pod", Name: "p"}}},
		Controller: &Controller{Mode: "enforce", BreakerAllows: &few}, Excluded: &Excluded{Types: []string{"a"}}}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := ParseQuery(r.URL.Query())
		if err != nil || q.Name != "p" || r.URL.Path != Path {
			t.Errorf("%s: %+v, %v", r.URL, q, err)
		}
		if err := json.NewEncoder(w).Encode(want); err != nil {
			t.Error(err)
		}
	})}}
	server.Start()
	defer server.Close()
	got, err := Ask(t.Context(), "unix://"+l.Addr().String(), Query{Resource: "pods", Name: "p", Policy: gc.Orphan})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// Whatever an answer is, it is refused or can be told.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"source":"controller","policy":"Orphan","root":{"kind":"Pod","name":"p","dependents":[{"outcome":"waiting","finalizers":["x"]}],"more":[{"count":-1}]},"released":[{}]}`))
	f.Add([]byte(`{"source":"controller","root":null}`))
	f.Add([]byte(`{"source":"controller","root":{},"controller":{"mode":"observe","breakerAllows":-3,"watched":[{"state":"synced"}]},"excluded":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Decode(data)
		if err != nil {
			return
		}
		if err := WriteText(new(strings.Builder), a); err != nil {
			t.Fatal(err)
		}
	})
}
