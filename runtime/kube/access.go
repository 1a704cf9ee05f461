package kube

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"
)

// access is the address of a server and the credentials to use there. Files are read on each use,
// because tokens and certificates are renewed while the agent runs.
type access struct {
	url        string
	caFile     string
	caData     []byte // instead of caFile
	serverName string // name that the certificate must have; "": the URL's host
	insecure   bool   // accept any certificate

	tokenFile string
	token     string // instead of tokenFile

	certFile, keyFile string
	certData, keyData []byte // instead of the files
}

// maxFile is the size limit in bytes of a token, a key, a certificate with its chain, or a
// kubeconfig.
const maxFile = 1 << 20

// parse checks the configuration without any I/O, and returns the server's URL.
func (a *access) parse() (*url.URL, error) {
	u, err := url.Parse(a.url)
	switch {
	case err != nil:
		return nil, fmt.Errorf("server address: %w", err)
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		return nil, fmt.Errorf("server address %q: want https://host:port", a.url)
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("server address: has more than https://host:port/path")
	}
	secret := a.token != "" || a.tokenFile != "" || a.hasCertificate()
	switch {
	case u.Scheme == "http" && secret:
		return nil, fmt.Errorf("server address %q: a token or client certificate needs https", a.url)
	case u.Scheme == "http" && (a.caFile != "" || len(a.caData) > 0 || a.insecure):
		return nil, fmt.Errorf("server address %q: a certificate authority or insecure-skip-tls-verify needs https", a.url)
	case a.insecure && (a.caFile != "" || len(a.caData) > 0):
		return nil, errors.New("a certificate authority and insecure-skip-tls-verify are both set: set only one")
	case (a.certFile == "") != (a.keyFile == "") && len(a.certData) == 0 && len(a.keyData) == 0:
		return nil, errors.New("a client certificate needs its key, and the key its certificate: one is missing")
	}
	return u, nil
}

func (a *access) hasCertificate() bool { return a.certFile != "" || len(a.certData) > 0 }

// bearer returns the token to send, "" if there is none.
func (a *access) bearer() (string, error) {
	if a.tokenFile == "" {
		return a.token, nil
	}
	b, err := readFile(a.tokenFile)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("read token: %s holds none", a.tokenFile)
	}
	return token, nil
}

// tls reads the certificate files, and returns the TLS configuration of the next connection.
func (a *access) tls(host string) (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         host,
		InsecureSkipVerify: a.insecure,
		NextProtos:         []string{"h2", "http/1.1"},
	}
	if a.serverName != "" {
		cfg.ServerName = a.serverName
	}
	ca, err := either(a.caData, a.caFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	if len(ca) > 0 {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("read certificate authority: %s holds no certificate", orInline(a.caFile, a.caData))
		}
	}
	if !a.hasCertificate() {
		return cfg, nil
	}
	cert, err := either(a.certData, a.certFile)
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	key, err := either(a.keyData, a.keyFile)
	if err != nil {
		return nil, fmt.Errorf("read client key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("client certificate %s and key %s: %w",
			orInline(a.certFile, a.certData), orInline(a.keyFile, a.keyData), err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// certificateEnd returns when the client certificate expires, or the zero time if it cannot be
// read.
func (a *access) certificateEnd() time.Time {
	if b, err := either(a.certData, a.certFile); err == nil {
		if block, _ := pem.Decode(b); block != nil {
			if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
				return cert.NotAfter
			}
		}
	}
	return time.Time{}
}

func either(data []byte, file string) ([]byte, error) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	return readFile(file)
}

// orInline names the source of some data in errors: the file, or the kubeconfig itself.
func orInline(file string, data []byte) string {
	if len(data) > 0 {
		return "(in the kubeconfig)"
	}
	return file
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return b, nil
}
