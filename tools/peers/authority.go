package peers

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// lifetime is the default lifetime of certificates: longer than any test, too short to
// be useful elsewhere.
const lifetime = 48 * time.Hour

// Authority signs the certificates of one control plane or of one standalone
// kubelet. Nothing else on the machine trusts it.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

// User is the identity in a client certificate.
type User struct {
	Name   string
	Groups []string

	// NotAfter is the end of the certificate's validity; it may be in the past. Default
	// 48 hours from now.
	NotAfter time.Time
}

// Credentials are a certificate, its key and the authority to trust, all PEM.
type Credentials struct {
	CA, Cert, Key []byte
}

// Files are the paths of Credentials on disk.
type Files struct {
	CA, Cert, Key string
}

// NewAuthority makes an independent authority. Tests also use one that no component
// trusts.
func NewAuthority(name string) (*Authority, error) {
	key, _, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	own, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	return &Authority{key: key, cert: own, pem: encode(der)}, nil
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte { return a.pem }

// Client signs a client certificate.
func (a *Authority) Client(u User) (Credentials, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: u.Name, Organization: u.Groups},
		NotAfter:    u.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Server signs a serving certificate for the loopback address and for names.
func (a *Authority) Server(name string, names ...string) (Credentials, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    append([]string{"localhost"}, names...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	})
}

// Serve starts an HTTPS server with a certificate for the loopback address and for names.
// It does not log broken connections. The caller must Close it.
func (a *Authority) Serve(h http.Handler, name string, names ...string) (*httptest.Server, error) {
	creds, err := a.Server(name, names...)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(creds.Cert, creds.Key)
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	return s, nil
}

func (a *Authority) issue(template *x509.Certificate) (Credentials, error) {
	name := template.Subject.CommonName
	key, keyPEM, err := newKey()
	if err != nil {
		return Credentials{}, fmt.Errorf("make key of %s: %w", name, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := sign(template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return Credentials{}, fmt.Errorf("sign certificate of %s: %w", name, err)
	}
	return Credentials{CA: a.pem, Cert: encode(der), Key: keyPEM}, nil
}

// sign fills in the fields that all certificates share, and signs.
func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, with *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template.SerialNumber = serial
	if template.NotAfter.IsZero() {
		template.NotAfter = now.Add(lifetime)
	}
	// Before NotAfter, even if that is in the past. The hour allows for clocks that
	// tests set back.
	template.NotBefore = now.Add(-time.Hour)
	if !template.NotBefore.Before(template.NotAfter) {
		template.NotBefore = template.NotAfter.Add(-time.Hour)
	}
	return x509.CreateCertificate(rand.Reader, template, parent, public, with)
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	data, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, nil, err
	}
	key, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, nil, err
	}
	return key.(*ecdsa.PrivateKey), data, nil
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}

// Write stores the credentials as NAME.crt, NAME.key and NAME-ca.crt in a
// directory, readable by their owner alone.
func (c Credentials) Write(dir, name string) (Files, error) {
	f := Files{
		CA:   filepath.Join(dir, name+"-ca.crt"),
		Cert: filepath.Join(dir, name+".crt"),
		Key:  filepath.Join(dir, name+".key"),
	}
	for path, data := range map[string][]byte{f.CA: c.CA, f.Cert: c.Cert, f.Key: c.Key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return Files{}, fmt.Errorf("write credentials: %w", err)
		}
	}
	return f, nil
}

// HTTPClient returns a client that presents these credentials and trusts only their
// authority. It has no timeout, because watches last. CloseIdleConnections closes its
// idle connections.
func (c Credentials) HTTPClient() (*http.Client, error) {
	pair, err1 := tls.X509KeyPair(c.Cert, c.Key)
	pool, err2 := cert.NewPoolFromBytes(c.CA)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}}, nil
}

// clients are the HTTP clients of users for whom an authority has signed certificates.
type clients struct {
	mu   sync.Mutex
	list []*http.Client
}

func (c *clients) add(a *Authority, user string, groups ...string) (*http.Client, error) {
	creds, err := a.Client(User{Name: user, Groups: groups})
	if err != nil {
		return nil, err
	}
	client, err := creds.HTTPClient()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, client)
	return client, nil
}

func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.list {
		client.CloseIdleConnections()
	}
}
