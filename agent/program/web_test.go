package program

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/program/programtest"
)

// TestServeProtected: over TLS alone, with the password alone, and with another one as soon as
// the file has it.
func TestServeProtected(t *testing.T) {
	file, client := programtest.Web(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "figures") })
	go func() { served <- ServeProtected(ctx, listener, page, file, slog.New(slog.NewTextHandler(&log, nil))) }()
	url := "https://" + listener.Addr().String()
	for password, want := range map[string]int{"": 401, "wrong": 401, programtest.Password: 200} {
		if status, body := programtest.Get(t, client, url, password); status != want || (body == "figures") != (want == 200) {
			t.Errorf("password %q: %d %q", password, status, body)
		}
	}
	if status, body := programtest.Get(t, &http.Client{}, "http://"+listener.Addr().String(), programtest.Password); status != 400 || body == "figures" {
		t.Errorf("without TLS: %d %q", status, body)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte(programtest.User), []byte("somebody")), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _ := programtest.Get(t, client, url, programtest.Password); status != 401 {
		t.Errorf("a user that is not there any more: %d", status)
	}
	stop()
	if err := <-served; err != nil || log.Len() > 0 {
		t.Errorf("%v; the log has %s", err, log.String())
	}
}

// TestServeUnprotected: without a file it is plain.
func TestServeUnprotected(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- ServeProtected(ctx, listener, http.NotFoundHandler(), "", slog.New(slog.DiscardHandler))
	}()
	if status, _ := programtest.Get(t, &http.Client{}, "http://"+listener.Addr().String(), ""); status != 404 {
		t.Errorf("%d", status)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestBadWebConfig: each is refused by the names of the file and of the field, and by the server, too.
func TestBadWebConfig(t *testing.T) {
	for text, field := range map[string]string{
		"tls_server_confg: {}\n":                                                                    "tls_server_confg",
		"tls_server_config: {cert_file: tls.crt}\n":                                                 "tls_server_config: missing one of key or key_file",
		"tls_server_config: {cert_file: none, key_file: tls.key}\n":                                 "tls_server_config: failed to read cert_file",
		"tls_server_config: {cert_file: tls.key, key_file: tls.key}\n":                              "tls_server_config: failed to load",
		"tls_server_config: {min_version: TLS9}\n":                                                  "unknown TLS version: TLS9",
		"tls_server_config: {cert_file: tls.crt, key_file: tls.key, client_auth_type: Sometimes}\n": "tls_server_config: invalid ClientAuth: Sometimes",
		"tls_server_config: {cert_file: tls.crt, key_file: tls.key, client_auth_type: RequireAndVerifyClientCert, client_ca_file: none}\n": "tls_server_config: open ",
		"basic_auth_users: {a: secret}\n":              "basic_auth_users: ",
		"http_server_config: {headers: {X-Mine: a}}\n": "HTTP header \"X-Mine\"",
		"a\n": "yaml: ",
	} {
		file, _ := programtest.Web(t)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := CheckWebConfig(file)
		if err == nil || !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(err.Error(), field) {
			t.Errorf("%q: %v", text, err)
		}
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%q: a password is in the error: %v", text, err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := ServeProtected(t.Context(), listener, http.NotFoundHandler(), file, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%q was served", text)
		}
		if again, err := net.Listen("tcp", listener.Addr().String()); err != nil {
			t.Errorf("%q: the port is still taken: %v", text, err)
		} else {
			again.Close()
		}
	}
	none := filepath.Join(t.TempDir(), "none.yml")
	if err := CheckWebConfig(none); err == nil || !strings.HasPrefix(err.Error(), none+": open ") {
		t.Errorf("no file: %v", err)
	}
	good, _ := programtest.Web(t)
	for _, file := range []string{"", good} {
		if err := CheckWebConfig(file); err != nil {
			t.Error(err)
		}
	}
}
