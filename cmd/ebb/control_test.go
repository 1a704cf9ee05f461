package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestControl: each command is one request, and what the controller refuses is an
// error in its own words.
func TestControl(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("type") == "pods" {
			http.Error(w, "pods can be read", http.StatusConflict)
			return
		}
		if r.URL.Path == "/readyz" {
			http.Error(w, strings.Repeat("listing: a type\n", 1000), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, r.Method, r.URL.RequestURI())
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	for _, c := range []struct {
		line, want, refused string
		code                exitCode
	}{
		{line: "decisions", want: "GET /decisions\n"},
		{line: "types", want: "GET /types\n"},
		{line: "ready", want: strings.Repeat("listing: a type\n", 1000) + "\n", code: exitFindings},
		{line: "pause", want: "POST /control/pause\n"},
		{line: "resume", want: "POST /control/resume\n"},
		{line: "explain --api-version apps/v1 --kind ReplicaSet --name a&b", want: "GET /explain?apiVersion=apps%2Fv1&kind=ReplicaSet&name=a%26b\n"},
		{line: "paws", refused: "unknown command"},
		{line: "pause --socket /nobody/is/here.sock", refused: "/nobody/is/here.sock"},
	} {
		t.Run(c.line, func(t *testing.T) {
			var out bytes.Buffer
			cmd := command(&out, &out)
			cmd.SetArgs(append([]string{"control", "--socket", path}, strings.Fields(c.line)...))
			err := cmd.ExecuteContext(t.Context())
			if c.refused == "" && (codeOf(err) != int(c.code) || out.String() != c.want) {
				t.Errorf("%v, %q, want %q", err, out.String(), c.want)
			}
			if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%v, want %q", err, c.refused)
			}
		})
	}
}
