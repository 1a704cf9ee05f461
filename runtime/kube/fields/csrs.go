package fields

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/ebb-agent/ebb/policy/csrs"
)

// Request reads a certificates.k8s.io/v1 CertificateSigningRequest into a [csrs.Request].
func Request(message []byte) (any, error) {
	var r reader
	p := r.parts(message)
	is := csrs.Request{Created: r.created(p), Signer: r.text(p.spec, 7)} // signerName
	of := map[string]*csrs.Condition{"Approved": &is.Approved, "Denied": &is.Denied, "Failed": &is.Failed}
	r.conditions(p.status, conditions{status: 6, at: 4}, func(c condition) { // lastUpdateTime
		is.Handled = true
		to := of[string(c.kind)]
		if to == nil {
			return
		}
		// If a type occurs twice, the earlier time counts, as each condition counts by itself.
		if to.Is = true; to.Since.IsZero() || !c.at.IsZero() && c.at.Before(to.Since) {
			to.Since = c.at
		}
	})
	certificate := r.take(p.status, 2)
	is.Issued, is.NotAfter = len(certificate) > 0, notAfter(certificate)
	return r.result(is)
}

// notAfter returns when the first certificate in PEM expires, or zero if it cannot be parsed.
// That is no error, because a signer can write anything.
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

// PodRequest reads a certificates.k8s.io PodCertificateRequest of any version into a
// [csrs.PodRequest].
func PodRequest(message []byte) (any, error) {
	var r reader
	return r.result(csrs.PodRequest{Created: r.created(r.parts(message))})
}
