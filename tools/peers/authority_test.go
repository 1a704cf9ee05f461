package peers

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"crypto/tls"
)

func TestAuthority(t *testing.T) {
	ca, err := NewAuthority("peers-test")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := NewAuthority("peers-test")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		signer *Authority
		user   User
		want   string // in the error, or "" for none
	}{
		{"user", ca, User{Name: "jane"}, ""},
		{"groups", ca, User{Name: "jane", Groups: []string{"a", "b"}}, ""},
		{"expired", ca, User{Name: "jane", NotAfter: time.Now().Add(-time.Minute)}, "expired"},
		{"stranger's", stranger, User{Name: "jane"}, "unknown authority"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			creds, err := tc.signer.Client(tc.user)
			if err != nil {
				t.Fatal(err)
			}
			cert := parse(t, creds.Cert)
			if cert.Subject.CommonName != tc.user.Name || !equalSets(cert.Subject.Organization, tc.user.Groups) {
				t.Errorf("subject %v, want %v", cert.Subject, tc.user)
			}
			pool := x509.NewCertPool()
			pool.AddCert(parse(t, ca.PEM()))
			_, err = cert.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("verify: %v, want %q", err, tc.want)
			}
		})
	}
}

func equalSets(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func parse(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("no PEM: %q", data)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestHTTPClient has a server of the authority look at whom it serves.
func TestHTTPClient(t *testing.T) {
	ca, err := NewAuthority("peers-test")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := ca.Server("server")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(serving.Cert, serving.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parse(t, ca.PEM()))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"name": "` + r.TLS.PeerCertificates[0].Subject.CommonName + `"}`))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()

	creds, err := ca.Client(User{Name: "jane"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := creds.HTTPClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	var answer struct{ Name string }
	if err := Request(t.Context(), client, http.MethodGet, server.URL, nil, &answer); err != nil || answer.Name != "jane" {
		t.Errorf("served %q, %v; want jane", answer.Name, err)
	}
}

func TestCredentialsWrite(t *testing.T) {
	ca, err := NewAuthority("peers-test")
	if err != nil {
		t.Fatal(err)
	}
	creds, err := ca.Client(User{Name: "jane"})
	if err != nil {
		t.Fatal(err)
	}
	files, err := creds.Write(t.TempDir(), "jane")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]byte{files.CA: ca.PEM(), files.Cert: creds.Cert, files.Key: creds.Key} {
		data, err := os.ReadFile(path)
		if err != nil || string(data) != string(want) {
			t.Errorf("%s: %q, %v; want %q", filepath.Base(path), data, err, want)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v; want 0600", filepath.Base(path), info.Mode(), err)
		}
	}
}
