package machines

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// http gets the inventory from URL. It follows no redirect, because redirects lead to a login
// page.
func (s Source) http(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Cache-Control", "no-cache, no-store")
	if s.Token != "" {
		token, err := os.ReadFile(s.Token)
		if err != nil {
			return nil, fmt.Errorf("its token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	config, err := s.tls()
	if err != nil {
		return nil, err
	}
	// The inventory is read seldom, so a kept connection would be dead by then. Files are read
	// each time, because they are replaced while the controller runs.
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", fault.Clean(resp.Status))
	}
	if resp.ContentLength > Longest {
		return nil, errLong
	}
	data, err := bounded(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("its answer breaks off: %w", err)
	}
	return data, nil
}

func (s Source) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, fmt.Errorf("its authorities: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("its authorities: no certificate in " + s.CA)
	}
	return config, nil
}
