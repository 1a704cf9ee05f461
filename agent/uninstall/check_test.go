package uninstall

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func (s *server) check(t *testing.T, o CheckOptions) Verdict {
	t.Helper()
	o.Config = s.config()
	v, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestPages: a list that went stale between two pages begins anew, and nothing counts
// twice. An API server that wants less gets less.
func TestPages(t *testing.T) {
	s := newServer(t)
	stale, busy := true, true
	s.on("/api/v1/things", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case busy:
			busy = false
			w.Header().Set("Retry-After", "0")
			status(w, http.StatusTooManyRequests, "later")
		case r.URL.Query().Get("continue") == "":
			fmt.Fprintf(w, `{"metadata":{"continue":"two"},"items":[%s]}`, stuck("a"))
		case stale:
			stale = false
			status(w, http.StatusGone, "the provided continue parameter is too old")
		default:
			fmt.Fprintf(w, `{"metadata":{},"items":[%s]}`, stuck("b"))
		}
	})
	v := s.check(t, CheckOptions{Controller: true})
	if v.MayGo || len(v.Refusals) != 1 || v.Refusals[0].Total != 2 || v.Objects != 2 {
		t.Errorf("%+v", v)
	}
}

// TestUnreadable: whatever comes back, a type that could not be read refuses.
func TestUnreadable(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"HTML":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>proxy\x1b[2J</html>") },
		"forbidden": func(w http.ResponseWriter, _ *http.Request) { status(w, http.StatusForbidden, "no") },
		"gone":      func(w http.ResponseWriter, _ *http.Request) { status(w, http.StatusNotFound, "no such type") },
		"always stale": func(w http.ResponseWriter, _ *http.Request) {
			status(w, http.StatusGone, "too old")
		},
		"a redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/api/v1/elsewhere")
			w.WriteHeader(http.StatusFound)
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"items":[`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.json("/api/v1/elsewhere", `{"items":[]}`)
			s.on("/api/v1/things", h)
			v := s.check(t, CheckOptions{Controller: true})
			if v.MayGo || len(v.Refusals) != 1 || v.Refusals[0].ID != "types" || !strings.HasPrefix(v.Refusals[0].Found[0], "things: ") {
				t.Errorf("%+v", v)
			}
			if strings.ContainsAny(fmt.Sprint(v), "\x1b\n") || s.count("GET /api/v1/elsewhere") > 0 {
				t.Errorf("%q", fmt.Sprint(v))
			}
			if v := s.check(t, CheckOptions{Controller: true, LeaveTypes: []string{"things"}}); !v.MayGo {
				t.Errorf("left: %+v", v)
			}
		})
	}
}

// TestWaits: what ebb-controller ends in time is no reason.
func TestWaits(t *testing.T) {
	s := newServer(t)
	looks := 0
	s.on("/api/v1/things", func(w http.ResponseWriter, _ *http.Request) {
		if looks++; looks < 3 {
			fmt.Fprintf(w, `{"items":[%s]}`, stuck("a"))
			return
		}
		fmt.Fprint(w, `{"items":[]}`)
	})
	if v := s.check(t, CheckOptions{Controller: true, Wait: time.Minute}); !v.MayGo || looks != 3 {
		t.Errorf("%d looks: %+v", looks, v)
	}
}

// TestKubelets: a node chooses neither what is asked, nor what is printed.
func TestKubelets(t *testing.T) {
	s := newServer(t)
	s.json("/api/v1/nodes", `{"items":[{"metadata":{"name":"fine"}},{"metadata":{"name":"over"}},{"metadata":{"name":"moved"}},
		{"metadata":{"name":"liar"}},{"metadata":{"name":"win","labels":{"kubernetes.io/os":"windows"}}},{"metadata":{"name":"aged"}}]}`)
	configz := func(node, body string) {
		s.json("/api/v1/nodes/"+node+"/proxy/configz", `{"kubeletconfig":{`+body+`}}`)
	}
	configz("fine", `"imageGCHighThresholdPercent":85`)
	configz("over", `"imageGCHighThresholdPercent":100`)
	configz("aged", `"imageGCHighThresholdPercent":100,"imageMaximumGCAge":"1h0m0s"`)
	s.on("/api/v1/nodes/moved/proxy/configz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/api/v1/secrets")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	s.json("/api/v1/nodes/liar/proxy/configz", "\x1b[2J"+strings.Repeat("x", 5<<20))
	v := s.check(t, CheckOptions{Agent: true})
	var got []string
	for _, r := range v.Refusals {
		got = append(got, r.ID+" "+strings.Join(r.Found, "; ")+" "+strings.Join(r.Leave, " "))
	}
	want := []string{
		"image-gc aged: imageGCHighThresholdPercent: 100 (it still removes what was not used for 1h0m0s); over: imageGCHighThresholdPercent: 100" +
			" --leave-node aged,over --leave-image-gc",
		"nodes liar: GET /api/v1/nodes/liar/proxy/configz: an answer of more than 4 MiB; moved: GET /api/v1/nodes/moved/proxy/configz: 307: Temporary Redirect" +
			" --leave-node liar,moved --leave-image-gc",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || v.Nodes != 5 {
		t.Errorf("%d nodes\n%q\nwant\n%q", v.Nodes, got, want)
	}
	if s.count("GET /api/v1/secrets") > 0 {
		t.Error("a node's redirect was followed")
	}
	if v := s.check(t, CheckOptions{Agent: true, LeaveNodes: []string{"aged", "over", "liar", "moved"}}); !v.MayGo {
		t.Errorf("%+v", v)
	}
}

// TestVerdictText: what a person reads, of very many.
func TestVerdictText(t *testing.T) {
	v := Verdict{Notes: []string{"a note"}}
	var names []string
	for n := range 100 {
		names = append(names, fmt.Sprintf("node-%03d", n))
	}
	v.refuseNodes(names, names, nil, nil)
	var out bytes.Buffer
	if err := WriteVerdict(&out, v, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"handed back: 100\n", "node-019\n", "and 80 more", "--leave-node node-000,", "node-019,…", "--leave-image-gc", "note     a note"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "node-020") || len(out.String()) > 4000 {
		t.Errorf("%d bytes:\n%s", out.Len(), out.String())
	}
	if got := spell("--leave-node a,b", "kubectl create"); got != `kubectl create --from-literal=EBB_UNINSTALL_LEAVE_NODE=a,b` {
		t.Error(got)
	}
}

// TestRetries: an API server that is away for a moment is asked again, one that stays
// away is an error.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		a := &api{base: "http://x", client: http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			calls++
			return nil, fmt.Errorf("connection refused")
		})}}
		begun := time.Now()
		err := a.do(t.Context(), request{method: http.MethodGet, path: "/a"}, nil)
		if err == nil || calls != attempts || !strings.Contains(err.Error(), "GET /a: ") {
			t.Errorf("%d calls: %q", calls, err)
		}
		if took := time.Since(begun); took < time.Second || took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func FuzzClean(f *testing.F) {
	f.Add("a \x1b[2J\nb")
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		if len(got) > maxText+8 || strings.ContainsAny(got, "\n\x1b\x00\r") {
			t.Errorf("%q", got)
		}
	})
}
