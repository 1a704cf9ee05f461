package uninstall

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
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
	s := newServer()
	stale, busy := true, true
	s.on("/api/v1/things", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case busy:
			busy = false
			w.Header().Set("Retry-After", "0")
			refuse(w, http.StatusTooManyRequests, "later")
		case q.Get("continue") == "" && q.Get("limit") == "":
			answer(w, page("", stuck("a"), stuck("b")))
		case q.Get("continue") == "":
			answer(w, page("two", stuck("a")))
		case stale:
			stale = false
			refuse(w, http.StatusGone, "the provided continue parameter is too old")
		default:
			answer(w, page("", stuck("b")))
		}
	})
	v := s.check(t, CheckOptions{Controller: true})
	if v.MayGo || len(v.Refusals) != 1 || v.Refusals[0].Total != 2 || v.Objects != 2 {
		t.Errorf("%+v", v)
	}
	if got := v.Refusals[0].Found[0]; got != "things shop/a (orphan, being deleted since 2026-01-02T03:04:05Z)" {
		t.Error(got)
	}
}

// TestUnreadable: whatever comes back, a type that could not be read refuses.
func TestUnreadable(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"HTML":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>proxy\x1b[2J</html>") },
		"forbidden": func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusForbidden, "no") },
		"gone":      func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "no such type") },
		"always stale": func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusGone, "too old")
		},
		"a redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/api/v1/elsewhere")
			w.WriteHeader(http.StatusFound)
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request) { answer(w, `{"items":[`) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			s.json("/api/v1/elsewhere", page(""))
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
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		looks := 0
		s.on("/api/v1/things", func(w http.ResponseWriter, _ *http.Request) {
			if looks++; looks < 3 {
				answer(w, page("", stuck("a")))
				return
			}
			answer(w, page(""))
		})
		if v := s.check(t, CheckOptions{Controller: true, Wait: time.Minute}); !v.MayGo || looks != 3 {
			t.Errorf("%d looks: %+v", looks, v)
		}
	})
}

// refused is a verdict in short.
func refused(v Verdict) (got []string) {
	for _, r := range v.Refusals {
		got = append(got, r.ID+" "+strings.Join(r.Found, "; ")+" "+strings.Join(r.Leave, " "))
	}
	return got
}

// TestKubelets: a node chooses neither what is asked, nor what is printed.
func TestKubelets(t *testing.T) {
	s := newServer()
	s.json("/api/v1/nodes", page("", `{"metadata":{"name":"fine"}},{"metadata":{"name":"over"}},{"metadata":{"name":"moved"}},
		{"metadata":{"name":"liar"}},{"metadata":{"name":"win","labels":{"kubernetes.io/os":"windows"}}},{"metadata":{"name":"aged"}}`))
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
	v := s.check(t, CheckOptions{Agent: true, KubeletProxy: true})
	want := []string{
		"image-gc aged: imageGCHighThresholdPercent: 100 (it still removes what was not used for 1h0m0s); over: imageGCHighThresholdPercent: 100" +
			" --leave-node aged,over --leave-image-gc",
		"nodes liar: GET /api/v1/nodes/liar/proxy/configz: malformed: an answer of more than 4 MiB; " +
			"moved: GET /api/v1/nodes/moved/proxy/configz: malformed: status 307 (a redirect, which is not followed: is that the API server's address?)" +
			" --leave-node liar,moved --leave-image-gc",
	}
	if got := refused(v); fmt.Sprint(got) != fmt.Sprint(want) || v.Nodes != 5 {
		t.Errorf("%d nodes\n%q\nwant\n%q", v.Nodes, got, want)
	}
	if s.count("GET /api/v1/secrets") > 0 {
		t.Error("a node's redirect was followed")
	}
	if v := s.check(t, CheckOptions{Agent: true, KubeletProxy: true, LeaveNodes: []string{"aged", "over", "liar", "moved"}}); !v.MayGo {
		t.Errorf("%+v", v)
	}
}

// TestManyKubelets: a few dead kubelets delay no others. If all are dead, that is reported in time.
func TestManyKubelets(t *testing.T) {
	for dead, most := range map[int]time.Duration{10: 20 * time.Second, 5000: nodesTime + nodeTime} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			var nodes []string
			for n := range max(1000, dead) {
				name := fmt.Sprintf("node-%04d", n)
				nodes = append(nodes, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
				if n < dead {
					s.on("/api/v1/nodes/"+name+"/proxy/configz", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				} else {
					s.json("/api/v1/nodes/"+name+"/proxy/configz", `{"kubeletconfig":{"imageGCHighThresholdPercent":85}}`)
				}
			}
			s.json("/api/v1/nodes", page("", nodes...))
			var progress bytes.Buffer
			begun := time.Now()
			v := s.check(t, CheckOptions{Agent: true, KubeletProxy: true, Progress: &progress})
			if took := time.Since(begun); took > most || len(v.Refusals) != 1 || v.Refusals[0].ID != "nodes" || v.Refusals[0].Total != dead {
				t.Errorf("%s: %+v", took, v)
			}
			if dead == 5000 && !strings.Contains(progress.String(), " of 5000 kubelets were asked\n") {
				t.Errorf("it does not count: %s", progress.String())
			}
		})
	}
}

// TestKubeletAccount: kubelets are asked in the name of the account, and never see the
// credentials of whoever runs this.
func TestKubeletAccount(t *testing.T) {
	var seen []string
	k := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.Path+" "+r.Header.Get("Authorization"))
		answer(w, `{"kubeletconfig":{"imageGCHighThresholdPercent":100}}`)
	}))
	defer k.Close()
	at, err := url.Parse(k.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer()
	s.json("/api/v1/nodes", page("", `{"metadata":{"name":"homeless"}}`, fmt.Sprintf(
		`{"metadata":{"name":"over"},"status":{"addresses":[{"type":"Hostname","address":"over"},{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}}}}`,
		at.Hostname(), at.Port())))
	const account = "/api/v1/namespaces/ebb/serviceaccounts/asks/token"
	s.on(account, func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusForbidden, "may not") })
	o := CheckOptions{Config: s.config(), Agent: true, KubeletAccount: "ebb/asks"}
	if _, err := Check(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--kubelet-account ebb/asks: POST "+account+": not allowed: may not; it needs the right to get nodes/configz") {
		t.Error(err)
	}
	s.json(account, `{"status":{"token":"worth nothing"}}`)
	v := s.check(t, o)
	want := []string{"image-gc over: imageGCHighThresholdPercent: 100 --leave-node over --leave-image-gc",
		"nodes homeless: its Node has no InternalIP --leave-node homeless --leave-image-gc"}
	if got := refused(v); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if fmt.Sprint(seen) != "[/configz Bearer worth nothing]" || s.count("GET /api/v1/nodes/") > 0 {
		t.Errorf("kubelets saw %q", seen)
	}
	for _, bad := range []string{"asks", "ebb/none"} {
		if o.KubeletAccount = bad; bad == "ebb/none" {
			s.json("/api/v1/namespaces/ebb/serviceaccounts/none/token", `{}`)
		}
		if _, err := Check(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--kubelet-account "+bad+": ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestVerdictText: what a person reads, of very many.
func TestVerdictText(t *testing.T) {
	v := Verdict{Notes: []string{"a note"}}
	nodes := make(map[string]string)
	for n := range 100 {
		nodes[fmt.Sprintf("node-%03d", n)] = "it is so"
	}
	v.refuseNodes(nodes, nil, false)
	var out bytes.Buffer
	if err := WriteVerdict(&out, v, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"handed back: 100\n", "node-019: it is so\n", "and 80 more", "--leave-node node-000,", "node-019,…", "--leave-image-gc", "note     a note"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "node-020") || len(out.String()) > 4000 {
		t.Errorf("%d bytes:\n%s", out.Len(), out.String())
	}
	out.Reset()
	if err := WriteVerdict(&out, v, "kubectl create configmap c"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"it is: --from-literal=EBB_UNINSTALL_LEAVE_NODE=node-000,", "it is: --from-literal=EBB_UNINSTALL_LEAVE_IMAGE_GC=true\n", "command: kubectl create configmap c\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

// TestRetries: an API server that is away for a moment is asked again, one that stays
// away is an error, and so is at once what will not pass.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c, err := kube.New(s.config(), kube.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for code, want := range map[int]int{http.StatusServiceUnavailable: attempts, http.StatusTooManyRequests: attempts, http.StatusForbidden: 1, http.StatusNotFound: 1} {
			path := fmt.Sprint("/api/", code)
			s.on(path, func(w http.ResponseWriter, _ *http.Request) { refuse(w, code, "the reason") })
			begun := time.Now()
			err := send(t.Context(), c, http.MethodGet, path, nil, nil, nil)
			if err == nil || s.count("GET "+path) != want || kube.Answered(err) != code || !strings.Contains(err.Error(), "GET "+path+": ") || !strings.Contains(err.Error(), ": the reason") {
				t.Errorf("%d: %d calls: %v", code, s.count("GET "+path), err)
			}
			if took := time.Since(begun); took > 10*time.Second || want > 1 && took < time.Second {
				t.Errorf("%d: it took %s", code, took)
			}
		}
		calls := 0
		err = again(t.Context(), func() error { calls++; return errors.New("connection refused") })
		if err == nil || calls != attempts {
			t.Errorf("%d calls: %v", calls, err)
		}
	})
}
