// Package programtest helps tests of programs that serve on the network.
package programtest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
)

// The user and the password of [Web], and the password's bcrypt hash at the lowest cost.
const (
	User     = "prometheus"
	Password = "secret"
	Hash     = "$2a$04$ZzUZUpDOosEw4dRS6r0yeeAIOm.lLoEX/jFVwAY5pxYsKbZPEhESK"
)

// Web makes a web configuration file with a certificate and one user, and a client that trusts this certificate
// on any address.
func Web(t *testing.T) (file string, client *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file = filepath.Join(dir, "web.yml")
	for name, data := range map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"web.yml": []byte("tls_server_config: {cert_file: tls.crt, key_file: tls.key}\nbasic_auth_users: {" + User + ": " + Hash + "}\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	client = server.Client()
	transport := client.Transport.(*http.Transport)
	transport.DisableKeepAlives = true                   // each request has its own connection
	transport.TLSClientConfig.ServerName = "example.com" // which httptest's certificate has
	return file, client
}

// FreeAddress returns an address on loopback that no process listens at now. It has an IP address of its own, so that
// no other test, which also takes any free port, gets it meanwhile.
func FreeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", rand.N(255), rand.N(255), 1+rand.N(254)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Answer is the status that a server must return for a URL and password.
type Answer struct {
	Client        *http.Client
	URL, Password string
	Status        int
}

// Answers fails the test if a server returns another status.
func Answers(t *testing.T, answers []Answer) {
	t.Helper()
	for _, want := range answers {
		if status, body := Get(t, want.Client, want.URL, want.Password); status != want.Status {
			t.Errorf("%s with password %q: %d %.100q", want.URL, want.Password, status, body)
		}
	}
}

// Get requests a page, with a password unless it is "". It waits up to 10 s until the server
// accepts connections.
func Get(t *testing.T, client *http.Client, url, password string) (status int, body string) {
	t.Helper()
	await.Holds(t, 10*time.Second, url+" to be served", func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if password != "" {
			r.SetBasicAuth(User, password)
		}
		response, err := client.Do(r)
		if nobody := (*net.OpError)(nil); errors.As(err, &nobody) && nobody.Op == "dial" {
			return err
		}
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		status, body = response.StatusCode, string(text)
		return nil
	})
	return status, body
}
