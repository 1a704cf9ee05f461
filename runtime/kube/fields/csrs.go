package fields

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/ebb-agent/ebb/policy/csrs"
)

// Request reads a certificates.k8s.io/v1 CertificateSigningRequest into a [csrs.Request].
func Request(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	var r csrs.Request
	if r.Created, err = p.created(); err != nil {
		return nil, err
	}
	signer, err := take(p.spec, 7) // signerName
	if err != nil {
		return nil, err
	}
	r.Signer = string(signer)
	of := map[string]*csrs.Condition{"Approved": &r.Approved, "Denied": &r.Denied, "Failed": &r.Failed}
	err = conditions{status: 6, at: 4}.each(p.status, func(c condition) { // lastUpdateTime
		r.Handled = true
		to := of[string(c.kind)]
		if to == nil {
			return
		}
		// A type that is there twice counts from the first, as each would by itself.
		if to.Is = true; to.Since.IsZero() || !c.at.IsZero() && c.at.Before(to.Since) {
			to.Since = c.at
		}
	})
	if err != nil {
		return nil, err
	}
	certificate, err := take(p.status, 2)
	if err != nil {
		return nil, err
	}
	r.Issued, r.NotAfter = len(certificate) > 0, notAfter(certificate)
	return r, nil
}

// notAfter of the first certificate in PEM; zero if that cannot be parsed, which is no
// error: anybody who may sign can write anything.
func notAfter(certificate []byte) time.Time {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return time.Time{}
	}
	all, err := x509.ParseCertificates(block.Bytes)
	if err != nil || len(all) == 0 {
		return time.Time{}
	}
	return all[0].NotAfter
}

// PodRequest reads a certificates.k8s.io PodCertificateRequest, of whatever version, into
// a [csrs.PodRequest].
func PodRequest(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	created, err := p.created()
	if err != nil {
		return nil, err
	}
	return csrs.PodRequest{Created: created}, nil
}
