package kubelet

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/runtime/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const answer = `{"kubeletconfig":{"imageGCHighThresholdPercent":100,"evictionHard":{"imagefs.available":"9%"}}}`

func TestFromKubelet(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var handler http.HandlerFunc
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(w, r) }))
	defer server.Close()
	ca := filepath.Join(dir, "ca.crt")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	answers := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body)) // a client that hangs up is part of the test
		}
	}
	good := kube.KubeletOptions{URL: server.URL, CAFile: ca, TokenFile: token}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		access  kube.KubeletOptions
		want    string // of the error
	}{
		"good": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/configz" || r.Header.Get("Authorization") != "Bearer s3cret" {
				w.WriteHeader(http.StatusTeapot)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(answer))
		}, good, ""},
		"401":             {answers(401, ""), good, "the kubelet does not know the token"},
		"403":             {answers(403, ""), good, "nodes/configz"},
		"404":             {answers(404, ""), good, "enableDebuggingHandlers"},
		"a page":          {answers(200, "<html>"), good, "not a kubelet's"},
		"another type":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, good, "text/html"},
		"an empty answer": {answers(200, "{}"), good, "not a kubelet's"},
		"cut off":         {answers(200, answer[:40]), good, "not a kubelet's"},
		"without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			chunk := []byte(strings.Repeat("x", 1<<16))
			for range 1 << 10 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, good, "not a kubelet's"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.org/", http.StatusFound)
		}, good, "302"},
		"no authority":     {answers(200, answer), kube.KubeletOptions{URL: server.URL}, "no authority is configured"},
		"not checked":      {answers(200, answer), kube.KubeletOptions{URL: server.URL, InsecureSkipVerify: true}, ""},
		"another name":     {answers(200, answer), kube.KubeletOptions{URL: server.URL, CAFile: ca, ServerName: "worker-3"}, "worker-3"},
		"no such token":    {answers(200, answer), kube.KubeletOptions{URL: server.URL, CAFile: ca, TokenFile: dir + "/none"}, "none"},
		"token over http":  {answers(200, answer), kube.KubeletOptions{URL: "http://127.0.0.1:1", TokenFile: token}, "needs https"},
		"no URL":           {answers(200, answer), kube.KubeletOptions{URL: "127.0.0.1:10250"}, "server address"},
		"nobody there":     {answers(200, answer), kube.KubeletOptions{URL: "https://127.0.0.1:1"}, "refused"},
		"no certificate":   {answers(200, answer), kube.KubeletOptions{URL: server.URL, CAFile: token}, "holds no certificate"},
		"no key":           {answers(200, answer), kube.KubeletOptions{URL: server.URL, CertFile: ca, KeyFile: ca}, "tls:"},
		"a control in URL": {answers(200, answer), kube.KubeletOptions{URL: "https://x\n\x1b[2J"}, "server address"},
	} {
		t.Run(name, func(t *testing.T) {
			handler = c.handler
			s, err := FromKubelet(t.Context(), c.access)
			if c.want == "" {
				if err != nil || s.ImageGCHighThresholdPercent != (Value[int]{100, FromConfigz}) || len(s.EvictionHard) != 1 || s.FlagsKnown {
					t.Errorf("%v, %+v", err, s)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Error("the token is in the error")
			}
		})
	}
}

func TestKubeletHangs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := FromKubelet(ctx, kube.KubeletOptions{URL: server.URL}); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("%v", err)
	}
}
