package machines

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reads reads a source, which must fail with want in the error, or give two machines if want is empty.
func reads(t *testing.T, what string, s Source, want string) {
	t.Helper()
	if s.Timeout == 0 {
		s.Timeout = 10 * time.Second
	}
	got, err := s.Read(t.Context())
	switch {
	case want == "" && (err != nil || len(got.Machines) != 2):
		t.Errorf("%s: %+v, %v", what, got, err)
	case want != "" && (err == nil || got != nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %+v, %v; want %q", what, got, err, want)
	}
}

func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link") // as a ConfigMap's is
	if err := os.Symlink(written(t, good), link); err != nil {
		t.Fatal(err)
	}
	reads(t, "a file", Source{File: link}, "")
	reads(t, "none", Source{File: filepath.Join(dir, "none")}, "no such file")
	reads(t, "a directory", Source{File: dir}, "not a regular file")
	reads(t, "a pipe", Source{File: fifo}, "not a regular file")
	reads(t, "a half", Source{File: written(t, good[:50])}, "unexpected end of JSON")
	reads(t, "too much", Source{File: written(t, good+strings.Repeat(" ", Longest))}, "more than 16777216 bytes")
}

// TestHTTP: over a real connection, whatever is not a whole inventory is an error.
func TestHTTP(t *testing.T) {
	hang := make(chan struct{})
	mux := http.NewServeMux()
	say := func(path string, code int, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, body)
		})
	}
	say("/good", 200, good)
	say("/html", 200, "<html><body>It works!</body></html>")
	say("/500", 500, good)
	say("/204", 204, "")
	say("/206", 206, good)
	say("/half", 200, good[:len(good)/2])
	say("/empty", 200, "")
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) })
	mux.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) { <-hang })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, good[:60])
		w.(http.Flusher).Flush()
		<-hang
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(good)+10))
		io.WriteString(w, good)
	})
	mux.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) {
		for chunk := strings.Repeat(" ", 1<<20); ; {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.WriteString(w, good)
	})
	plain, secure := httptest.NewServer(mux), httptest.NewTLSServer(mux)
	secure.Config.ErrorLog, plain.Config.ErrorLog = nil, nil
	t.Cleanup(func() { close(hang); plain.Close(); secure.Close() })
	for path, want := range map[string]string{
		"/good": "", "/html": `begins with "<html>`, "/500": "500 Internal", "/204": "204", "/206": "206", "/half": "unexpected end of JSON", "/empty": "empty",
		"/login": "302 Found", "/cut": "breaks off", "/long": "more than", "/none": "404", "/token": "401",
	} {
		reads(t, path, Source{URL: plain.URL + path}, want)
	}
	for _, path := range []string{"/hang", "/slow"} {
		reads(t, path, Source{URL: plain.URL + path, Timeout: 200 * time.Millisecond}, "no answer within 200ms")
	}
	ca := written(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	reads(t, "TLS", Source{URL: secure.URL + "/good", CA: ca}, "")
	reads(t, "TLS with a token", Source{URL: secure.URL + "/token", CA: ca, Token: written(t, " s3cret\n")}, "")
	reads(t, "an unknown authority", Source{URL: secure.URL + "/good"}, "unknown authority")
	reads(t, "no authority", Source{URL: secure.URL + "/good", CA: written(t, "x")}, "no certificate")
	reads(t, "no CA", Source{URL: secure.URL + "/good", CA: "/none"}, "its authorities")
	reads(t, "no token", Source{URL: secure.URL + "/good", CA: ca, Token: "/none"}, "its token")
	reads(t, "nobody there", Source{URL: "http://127.0.0.1:1/"}, "refused")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Source{URL: plain.URL + "/hang", Timeout: time.Minute}).Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

// TestCommand: what a command leaves behind goes with it.
func TestCommand(t *testing.T) {
	file := written(t, good)
	sh := func(script string) Source {
		return Source{Command: []string{"/bin/sh", "-c", script}, Timeout: time.Minute}
	}
	reads(t, "cat", Source{Command: []string{"cat", file}}, "")
	reads(t, "no shell", Source{Command: []string{"cat " + file}}, "no such file")
	reads(t, "none", Source{Command: []string{"/none"}}, "no such file")
	reads(t, "an error", sh("cat "+file+"; echo it is broken >&2; exit 3"), "exit status 3: it is broken")
	reads(t, "a signal", sh("cat "+file+"; kill -9 $$"), "signal: killed")
	reads(t, "half", sh("head -c 50 "+file), "unexpected end of JSON")
	reads(t, "too much", Source{Command: []string{"yes"}}, "more than")
	pids := filepath.Join(t.TempDir(), "pids")
	hangs := sh("sleep 1000 & echo $! >" + pids + "; wait")
	hangs.Timeout = 2 * time.Second // by then the shell has begun
	reads(t, "a child that hangs", hangs, "no answer within 2s")
	gone(t, pids)
	reads(t, "a child that stays", Source{Command: []string{"/bin/sh", "-c", "sleep 1000 & echo $! >" + pids + "; cat " + file}, Timeout: time.Minute}, "still holds its output")
	gone(t, pids)
}

// gone waits until the process whose number is in a file is no more.
func gone(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(data))
	for range 500 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %s is there", pid)
}
