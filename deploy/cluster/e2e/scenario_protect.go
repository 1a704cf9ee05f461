package main

import (
	"net/http"
	"os"
	"path/filepath"

	"github.com/ebb-agent/ebb/tools/peers"
)

// metricsName is the name in ebb's metrics certificate, which the page has Prometheus
// verify.
const metricsName = "ebb.example"

// protect makes the metrics endpoints require a password, which Prometheus then sends.
func (b *fixture) protect() {
	const page, heading = "docs/monitoring.md", "TLS and passwords"
	authority := need(peers.NewAuthority("e2e metrics"))
	creds := need(authority.Server(metricsName, metricsName))
	files := b.writeFiles(page, heading)
	for name, data := range map[string][]byte{"tls.crt": creds.Cert, "tls.key": creds.Key, "ca.crt": creds.CA} {
		path := filepath.Join(b.tree, name)
		must(os.WriteFile(path, data, 0o600))
		files = append(files, path)
	}
	b.follow(page, heading)
	for _, file := range files {
		must(os.Remove(file))
	}
	b.ready()
	b.refused(creds)
	b.operate()
	b.scraped(`,namespace="`+namespace+`"`, "Prometheus scrapes the agent and both controllers over TLS, with the password")
}

// refused checks that requests without TLS or without a password fail.
func (b *fixture) refused(creds peers.Credentials) {
	var output string
	if err := b.ask("http://"+b.agentAddress()+"/metrics", &output); err == nil {
		fail("metrics without TLS: %.200s", output)
	}
	client := need(creds.HTTPClient())
	defer client.CloseIdleConnections()
	client.Transport.(*http.Transport).TLSClientConfig.ServerName = metricsName // the certificate has no node's address
	resp := need(client.Get("https://" + b.agentAddress() + "/metrics"))
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		fail("metrics without a password: %s", resp.Status)
	}
	b.notes.ok("nobody gets the agent's metrics without TLS, or without the password")
}
